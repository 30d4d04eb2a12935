import { expect, test } from "vitest";
import { brokenWorlds } from "./chaos.ts";

// A file of its own, so that two cores share the seeds.
test("a gateway keeps its laws in worlds of other seeds as well", { timeout: 300_000 }, () => {
  expect(brokenWorlds({ fromSeed: 101, seeds: 100 })).toEqual([]);
});
