import { ChaoticWorld } from "../../simulator/chaotic-world.ts";

/** Runs one chaotic world for each seed. Throws at the first law that is broken, and says how to see it again. */
export function expectLawsHold(options: {
  readonly fromSeed: number;
  readonly seeds: number;
}): void {
  const { fromSeed, seeds } = options;
  for (let seed = fromSeed; seed < fromSeed + seeds; seed += 1) {
    try {
      new ChaoticWorld(seed).run();
    } catch (cause) {
      throw new Error(`npm run simulate -- --chaos --seed ${seed}`, { cause });
    }
  }
}
