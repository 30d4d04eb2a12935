import { describe, expect, test } from "vitest";
import { noCounts } from "../../../src/slo/attainment-window.ts";
import { toGoodput } from "../../../src/slo/goodput.ts";

describe("toGoodput()", () => {
  test("works out every share of its own whole", () => {
    const counts = {
      ...noCounts(),
      offered: 200,
      offeredInProfile: 100,
      rejectedInProfile: 2,
      rejectedOutOfProfile: 60,
      admitted: 138,
      good: 90,
      missed: 10,
      degraded: 25,
      excluded: 13,
      offeredCostMs: 4000,
      goodCostMs: 1000,
    };
    expect(toGoodput(counts, 10_000)).toEqual({
      admittedAttainmentRatio: 0.9,
      inProfileAcceptanceRatio: 0.98,
      offeredGoodRatio: 0.45,
      offeredGoodCostRatio: 0.25,
      goodPerSecond: 9,
      goodCostMsPerSecond: 100,
      degradedRatio: 0.2,
    });
  });

  test("a share of nothing is absent, and a rate of nothing is 0", () => {
    expect(toGoodput(noCounts(), 1000)).toEqual({
      admittedAttainmentRatio: undefined,
      inProfileAcceptanceRatio: undefined,
      offeredGoodRatio: undefined,
      offeredGoodCostRatio: undefined,
      goodPerSecond: 0,
      goodCostMsPerSecond: 0,
      degradedRatio: undefined,
    });
  });

  test("refusals of requests from before the window do not make a share negative", () => {
    const counts = { ...noCounts(), offeredInProfile: 1, rejectedInProfile: 3 };
    expect(toGoodput(counts, 1000).inProfileAcceptanceRatio).toBe(0);
  });
});
