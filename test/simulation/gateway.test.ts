import { describe, expect, test } from "vitest";
import { ChaoticWorld } from "../../simulator/chaotic-world.ts";
import { expectLawsHold } from "./chaos.ts";

describe("a gateway among replicas that fail, clients that leave and messages that get lost", () => {
  test("keeps its laws after every event, and comes to rest", { timeout: 300_000 }, () => {
    expectLawsHold({ fromSeed: 1, seeds: 100 });
  });

  test("has one history for one seed, and another one for another", () => {
    const historyOf = (seed: number) => {
      const world = new ChaoticWorld(seed);
      world.run();
      return world.history;
    };
    expect(historyOf(5)).toEqual(historyOf(5));
    expect(historyOf(5)).not.toEqual(historyOf(6));
  });
});
