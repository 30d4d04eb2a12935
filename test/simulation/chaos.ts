import { ChaoticWorld } from "../../simulator/chaotic-world.ts";

/**
 * Runs one chaotic world for each seed. Returns, for each in which a law is broken, how to see it
 * again and which law that is.
 */
export function brokenWorlds(options: {
  readonly fromSeed: number;
  readonly seeds: number;
}): string[] {
  const { fromSeed, seeds } = options;
  return Array.from({ length: seeds }, (_, index) => fromSeed + index).flatMap((seed) => {
    try {
      new ChaoticWorld(seed).run();
      return [];
    } catch (error) {
      return [`npm run simulate -- --chaos --seed ${seed}: ${String(error)}`];
    }
  });
}

/** What happened in the world of a seed. */
export function historyOf(seed: number): readonly string[] {
  const world = new ChaoticWorld(seed);
  world.run();
  return world.history;
}
