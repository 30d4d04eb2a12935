import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { attemptLimitMs } from "../../../src/slo/attempt-limit.ts";

describe("attemptLimitMs()", () => {
  test.each([
    ["a share of the budget, where the forecast is far below it", 20, 500, 200],
    ["a share, but no more than some seconds", 20, 60_000, 5_000],
    ["some seconds where nothing is due", 20, Infinity, 5_000],
    ["three bounds, where that is more than the share", 100, 500, 300],
    ["what is left beside another attempt, where three bounds are too much", 150, 500, 275],
    ["three bounds, where no other attempt could be in time", 200, 500, 600],
    ["three bounds, when the time is over already", 200, 0, 600],
    ["as long as the way there may take, however short the forecast", 1, 150, 100],
  ])("is %s", (_, boundMs, budgetMs, limitMs) => {
    expect(attemptLimitMs({ boundMs, budgetMs })).toBe(limitMs);
  });

  test("is never below one and a half bounds, and leaves as much where there is time for both", () => {
    const ms = fc.double({ min: 0, max: 10_000, noNaN: true });
    fc.assert(
      fc.property(ms, ms, (boundMs, budgetMs) => {
        const limitMs = attemptLimitMs({ boundMs, budgetMs });
        const leastMs = Math.max(100, 1.5 * boundMs);
        expect(limitMs).toBeGreaterThanOrEqual(leastMs);
        const isTimeForBoth = budgetMs >= 2 * leastMs;
        expect(!isTimeForBoth || budgetMs - limitMs >= leastMs - 1e-6).toBe(true);
      }),
    );
  });
});
