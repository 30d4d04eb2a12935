import { describe, expect, test } from "vitest";
import { brokenWorlds, historyOf } from "./chaos.ts";

describe("a gateway among replicas that fail, clients that leave and messages that get lost", () => {
  test("keeps its laws after every event, and comes to rest", { timeout: 300_000 }, () => {
    expect(brokenWorlds({ fromSeed: 1, seeds: 100 })).toEqual([]);
  });

  test("has one history for one seed, and another one for another", () => {
    expect(historyOf(5)).toEqual(historyOf(5));
    expect(historyOf(5)).not.toEqual(historyOf(6));
  });
});
