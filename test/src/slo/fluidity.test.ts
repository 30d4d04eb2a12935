import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fluidityIndex } from "../../../src/slo/fluidity.ts";

const DEADLINES = { ttftMs: 100, tbtMs: 50 };

describe("fluidityIndex()", () => {
  test("a stream that is never late is 1, one without tokens too", () => {
    expect(fluidityIndex([100, 50, 50], DEADLINES)).toBe(1);
    expect(fluidityIndex([], DEADLINES)).toBe(1);
  });

  test("what came early covers a later stall as long as it lasts", () => {
    // 20 + 3 × 40 = 140 ms in hand.
    expect(fluidityIndex([80, 10, 10, 10, 190], DEADLINES)).toBe(1);
    expect(fluidityIndex([80, 10, 10, 10, 191], DEADLINES)).toBe(4 / 5);
  });

  test("a stall misses every deadline that passes in it, and leaves no debt behind", () => {
    // (230 − 20) / 50 = 4 deadlines; the token behind it starts anew.
    expect(fluidityIndex([80, 230, 50], DEADLINES)).toBe(2 / 6);
  });

  test("a late first token misses its own deadline and those of the tokens due meanwhile", () => {
    expect(fluidityIndex([101], DEADLINES)).toBe(0);
    expect(fluidityIndex([250, 50], DEADLINES)).toBe(1 / 5);
  });

  test("it is a share, and 1 where no gap is longer than its deadline", () => {
    const gaps = fc.array(fc.double({ min: 0, max: 1000, noNaN: true }), { maxLength: 50 });
    fc.assert(
      fc.property(gaps, (gapsMs) => {
        const index = fluidityIndex(gapsMs, DEADLINES);
        expect(index).toBeGreaterThanOrEqual(0);
        expect(index).toBeLessThanOrEqual(1);
        const longestMs = Math.max(1, ...gapsMs);
        expect(fluidityIndex(gapsMs, { ttftMs: longestMs, tbtMs: longestMs })).toBe(1);
      }),
    );
  });
});
