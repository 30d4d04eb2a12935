import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { HoldBack } from "../../../src/admission/hold-back.ts";
import { copyState } from "../../../src/base/plain-state.ts";

/** Named, so that what is tested are the rules and not how the pool is tuned. */
const OPTIONS = { startRatio: 0.6, ratioMin: 0.4, refusedRatio: 0.03 } as const;
const BUSY = { queueIsEmpty: false, headroomRatio: 0.2 };

describe("HoldBack", () => {
  test("excess may use the ratio to start with before anything is known", () => {
    expect(new HoldBack(OPTIONS).excessRatio(BUSY)).toBe(0.6);
  });

  test("a second with refusals in profile lowers the ratio once, however many there are", () => {
    const one = new HoldBack(OPTIONS);
    const many = new HoldBack(OPTIONS);
    one.refused(1_000);
    for (let nowMs = 1_000; nowMs < 2_000; nowMs += 10) many.refused(nowMs);
    expect(one.excessRatio(BUSY)).toBeLessThan(0.6);
    expect(many.excessRatio(BUSY)).toBeCloseTo(one.excessRatio(BUSY), 12);
    many.refused(2_000);
    expect(many.excessRatio(BUSY)).toBeLessThan(one.excessRatio(BUSY));
  });

  test("while nobody is refused the ratio rises by the time that passes, up to its most", () => {
    const seldom = new HoldBack(OPTIONS);
    const often = new HoldBack(OPTIONS);
    for (let nowMs = 0; nowMs <= 60_000; nowMs += 30_000) seldom.rise(nowMs);
    for (let nowMs = 0; nowMs <= 60_000; nowMs += 250) often.rise(nowMs);
    expect(seldom.excessRatio(BUSY)).toBeGreaterThan(0.6);
    expect(often.excessRatio(BUSY)).toBeCloseTo(seldom.excessRatio(BUSY), 9);
    often.rise(3_600_000);
    expect(often.excessRatio(BUSY)).toBe(0.95);
  });

  test("one refusal takes what many seconds without one give back", () => {
    const holdBack = new HoldBack(OPTIONS);
    holdBack.rise(0);
    holdBack.refused(0);
    holdBack.rise(8_000);
    expect(holdBack.excessRatio(BUSY)).toBeLessThan(0.6);
    holdBack.rise(12_000);
    expect(holdBack.excessRatio(BUSY)).toBeGreaterThan(0.6);
  });

  test("it rises the faster, the longer nobody was refused, and slowly again after the next", () => {
    const holdBack = new HoldBack({ ...OPTIONS, ratioMax: 10 });
    const risenBetween = (fromMs: number, untilMs: number) => {
      holdBack.rise(fromMs);
      const before = holdBack.excessRatio(BUSY);
      holdBack.rise(untilMs);
      return holdBack.excessRatio(BUSY) - before;
    };
    holdBack.refused(0);
    const first = risenBetween(0, 1_000);
    expect(risenBetween(40_000, 41_000)).toBeGreaterThan(3 * first);
    holdBack.refused(60_000);
    expect(risenBetween(60_000, 61_000)).toBeCloseTo(first, 9);
  });

  test("a broken promise lowers it once an interval, however often it is said", () => {
    const holdBack = new HoldBack({ ...OPTIONS, riseRatioPerSecond: 0 });
    for (let nowMs = 0; nowMs < 30_000; nowMs += 1_000) holdBack.broken(nowMs);
    expect(holdBack.excessRatio(BUSY)).toBeCloseTo(0.55, 12);
    holdBack.broken(30_000);
    expect(holdBack.excessRatio(BUSY)).toBeCloseTo(0.5, 12);
  });

  test("nothing is held back while nobody waits and half of a target is free", () => {
    const holdBack = new HoldBack(OPTIONS);
    expect(holdBack.excessRatio({ queueIsEmpty: true, headroomRatio: 0.6 })).toBe(1);
    expect(holdBack.excessRatio({ queueIsEmpty: false, headroomRatio: 0.6 })).toBe(0.6);
    expect(holdBack.excessRatio({ queueIsEmpty: true, headroomRatio: 0.5 })).toBe(0.6);
  });

  test("whatever happens the ratio stays in its range, and a copy of the state goes on the same", () => {
    const event = fc.tuple(fc.constantFrom("rise", "refused", "broken"), fc.nat({ max: 100_000 }));
    fc.assert(
      fc.property(fc.array(event, { size: "max", maxLength: 200 }), (events) => {
        const holdBack = new HoldBack({ refusedRatio: 0.2 });
        let nowMs = 0;
        for (const [kind, elapsedMs] of events) {
          const copy = new HoldBack({ refusedRatio: 0.2 }, copyState(holdBack.state));
          nowMs += elapsedMs;
          for (const one of [holdBack, copy]) {
            one[kind](nowMs);
            one.checkInvariants();
          }
          expect(copy.state).toEqual(holdBack.state);
        }
      }),
    );
  });
});
