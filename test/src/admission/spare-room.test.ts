import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { SpareRoom } from "../../../src/admission/spare-room.ts";

const POOL = 4;

/** What is left at the end, where a pool refused every `everyMs` from one instant to another. */
function spareBehind(spare: SpareRoom, fromMs: number, untilMs: number, everyMs: number): number {
  let ratio = 1;
  for (let nowMs = fromMs; nowMs <= untilMs; nowMs += everyMs) ratio = spare.refused(POOL, nowMs);
  return ratio;
}

describe("SpareRoom", () => {
  test("is all of a pool that was sent nothing and has refused nobody", () => {
    expect(new SpareRoom().refused(POOL, 1_000_000)).toBe(1);
  });

  test("is hardly less behind a burst, and next to nothing behind a minute of refusals", () => {
    expect(spareBehind(new SpareRoom(), 0, 500, 10)).toBeGreaterThan(0.95);
    const spare = new SpareRoom();
    expect(spareBehind(spare, 0, 60_000, 500)).toBeLessThan(0.05);
    expect(spare.refused(POOL, 180_000)).toBeGreaterThan(0.95);
  });

  test("is what is not taken: half of a pool that is half busy, nothing of one that is full", () => {
    const half = new SpareRoom();
    const full = new SpareRoom();
    for (let nowMs = 0; nowMs < 120_000; nowMs += 100) {
      half.sent(POOL * 50, nowMs);
      full.sent(POOL * 110, nowMs);
    }
    expect(half.refused(POOL, 120_000)).toBeCloseTo(0.5, 1);
    expect(full.refused(POOL, 120_000)).toBeLessThan(0.05);
  });

  test("is nothing of a pool that has nothing", () => {
    expect(new SpareRoom().refused(0, 0)).toBe(0);
  });

  test("is from 0 to 1, whatever happens, and with a clock that runs backwards", () => {
    const event = fc.record({
      atMs: fc.integer({ min: -1_000, max: 1_000_000 }),
      costMs: fc.option(fc.double({ min: 0, max: 1e6, noNaN: true })),
    });
    fc.assert(
      fc.property(fc.array(event, { maxLength: 50 }), (events) => {
        const spare = new SpareRoom();
        const ratios = events.map(({ atMs, costMs }) => {
          if (costMs !== null) spare.sent(costMs, atMs);
          return costMs === null ? spare.refused(POOL, atMs) : 0;
        });
        expect(ratios.every((ratio) => ratio >= 0 && ratio <= 1)).toBe(true);
      }),
    );
  });
});
