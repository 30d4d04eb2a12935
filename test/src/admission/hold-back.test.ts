import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { HoldBack } from "../../../src/admission/hold-back.ts";
import { copyState } from "../../../src/base/plain-state.ts";

const WINDOW_MS = 30_000;
const BUSY = { queueIsEmpty: false, headroomRatio: 0.2 };

describe("HoldBack", () => {
  test("excess may use six tenths of a target before anything is known", () => {
    expect(new HoldBack().excessRatio(BUSY)).toBe(0.6);
  });

  test("a burning tenant lowers the ratio once a window, down to its least", () => {
    const holdBack = new HoldBack();
    const ratios: number[] = [];
    for (let nowMs = 0; nowMs <= 5 * WINDOW_MS; nowMs += 1_000) {
      holdBack.update(true, nowMs);
      if (nowMs % WINDOW_MS === 29_000) ratios.push(holdBack.excessRatio(BUSY));
    }
    const expected = [0.55, 0.5, 0.45, 0.4, 0.4];
    expect(ratios).toHaveLength(expected.length);
    for (const [index, ratio] of ratios.entries())
      expect(ratio).toBeCloseTo(expected[index] ?? 0, 12);
  });

  test("while nobody burns the ratio rises by a hundredth a second, up to its most", () => {
    const holdBack = new HoldBack();
    for (let nowMs = 0; nowMs <= 10_000; nowMs += 250) holdBack.update(false, nowMs);
    expect(holdBack.excessRatio(BUSY)).toBeCloseTo(0.7, 9);
    for (let nowMs = 10_000; nowMs <= 60_000; nowMs += 250) holdBack.update(false, nowMs);
    expect(holdBack.excessRatio(BUSY)).toBe(0.9);
  });

  test("the ratio does not rise while a window's fall has still to show", () => {
    const holdBack = new HoldBack();
    holdBack.update(true, 0);
    holdBack.update(true, 20_000);
    expect(holdBack.excessRatio(BUSY)).toBeCloseTo(0.55, 12);
  });

  test("with nobody waiting and more than half of a target left, nothing is held back", () => {
    const holdBack = new HoldBack();
    expect(holdBack.excessRatio({ queueIsEmpty: true, headroomRatio: 0.51 })).toBe(1);
    expect(holdBack.excessRatio({ queueIsEmpty: true, headroomRatio: 0.5 })).toBe(0.6);
    expect(holdBack.excessRatio({ queueIsEmpty: false, headroomRatio: 0.9 })).toBe(0.6);
  });

  const history = fc.array(
    fc.record({ isBurning: fc.boolean(), gapMs: fc.integer({ min: -5_000, max: 90_000 }) }),
    { maxLength: 60, size: "max" },
  );

  test("the ratio stays in its range whatever happens, clocks that run backwards included", () => {
    fc.assert(
      fc.property(history, (updates) => {
        const holdBack = new HoldBack();
        let nowMs = 0;
        for (const { isBurning, gapMs } of updates) {
          const before = holdBack.state.ratio;
          holdBack.update(isBurning, (nowMs += gapMs));
          holdBack.checkInvariants();
          const moved = holdBack.state.ratio - before;
          expect(isBurning ? -moved : moved).toBeGreaterThanOrEqual(0);
        }
      }),
    );
  });

  test("a copy of the state goes on as the original does", () => {
    const holdBack = new HoldBack();
    holdBack.update(true, 1_000);
    const copy = new HoldBack({}, copyState(holdBack.state));
    for (const revived of [holdBack, copy]) {
      revived.update(true, 20_000);
      revived.update(false, 25_000);
    }
    expect(copy.state).toEqual(holdBack.state);
  });
});
