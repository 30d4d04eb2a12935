import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { copyState } from "../../../src/base/plain-state.ts";
import { CostBucket, costProfile } from "../../../src/tenants/cost-bucket.ts";

/** Half a replica, with a burst of 5 s of GPU time. */
const HALF = costProfile(0.5);
const NOTHING = costProfile(0);

describe("CostBucket", () => {
  test("a burst is in profile until ten seconds of the rate are spent", () => {
    const bucket = new CostBucket();
    const verdicts = Array.from({ length: 8 }, () => bucket.take(1_000, HALF, 0));
    expect(verdicts).toEqual([true, true, true, true, true, false, false, false]);
  });

  test("what is spent is granted again at the rate, and no faster", () => {
    const bucket = new CostBucket();
    expect(bucket.take(5_000, HALF, 0)).toBe(true);
    expect(bucket.take(1_000, HALF, 1_999)).toBe(false);
    expect(bucket.take(1_000, HALF, 2_000)).toBe(true);
    expect(bucket.take(1_000, HALF, 2_001)).toBe(false);
  });

  test("a request larger than the whole burst passes when the bucket is nearly full, and leaves a debt", () => {
    const bucket = new CostBucket();
    expect(bucket.take(501, HALF, 0)).toBe(true);
    expect(bucket.take(8_000, HALF, 0)).toBe(false);
    expect(bucket.take(8_000, HALF, 2)).toBe(true);
    // 8.5 s are spent of 5 s: nothing passes for the 7 s in which the debt is granted.
    expect(bucket.take(1, HALF, 7_001)).toBe(false);
    expect(bucket.take(1, HALF, 7_004)).toBe(true);
  });

  test("too low an estimate leaves a debt, too high a one gives back", () => {
    const bucket = new CostBucket();
    expect(bucket.take(1_000, HALF, 0)).toBe(true);
    bucket.correct(5_000, HALF, 0);
    expect(bucket.take(1, HALF, 0)).toBe(false);
    bucket.correct(-2_000, HALF, 0);
    expect(bucket.take(1_000, HALF, 0)).toBe(true);
    expect(bucket.take(1, HALF, 0)).toBe(false);
  });

  test("a correction counts from when it is known, not from the take long before", () => {
    const bucket = new CostBucket();
    expect(bucket.take(100, HALF, 0)).toBe(true);
    bucket.correct(6_000, HALF, 60_000);
    expect(bucket.take(1, HALF, 60_000)).toBe(false);
  });

  test("what is given back never makes the bucket more than full", () => {
    const bucket = new CostBucket();
    expect(bucket.take(4_000, HALF, 0)).toBe(true);
    bucket.correct(-4_000, HALF, 60_000);
    expect(bucket.take(5_000, HALF, 60_000)).toBe(true);
    expect(bucket.take(1, HALF, 60_000)).toBe(false);
  });

  test("a pool that shrinks grants less from then on, and one that grows more", () => {
    const bucket = new CostBucket();
    expect(bucket.take(2_000, HALF, 0)).toBe(true);
    expect(bucket.take(1_000, costProfile(0.2), 0)).toBe(false);
    expect(bucket.take(1_000, costProfile(1), 0)).toBe(true);
  });

  test("who is guaranteed nothing is never in profile", () => {
    const bucket = new CostBucket();
    expect(bucket.take(0, NOTHING, 0)).toBe(false);
    expect(bucket.take(1, NOTHING, 1e9)).toBe(false);
    expect(bucket.inProfileAfterMs(1, NOTHING, 1e9)).toBe(Infinity);
  });

  test("a clock that runs backwards grants nothing", () => {
    const bucket = new CostBucket();
    expect(bucket.take(5_000, HALF, 10_000)).toBe(true);
    expect(bucket.take(1, HALF, 0)).toBe(false);
    expect(bucket.take(1_000, HALF, 11_999)).toBe(false);
    expect(bucket.take(1_000, HALF, 12_000)).toBe(true);
  });

  const calls = fc.array(
    fc.record({ costMs: fc.integer({ min: 1, max: 9_000 }), gapMs: fc.nat(3_000) }),
    { minLength: 1, maxLength: 60, size: "max" },
  );

  test("over any time no more is in profile than the rate, one burst and one request", () => {
    fc.assert(
      fc.property(calls, (sequence) => {
        const bucket = new CostBucket();
        const taken: { readonly atMs: number; readonly costMs: number }[] = [];
        let nowMs = 0;
        for (const { costMs, gapMs } of sequence) {
          nowMs += gapMs;
          if (bucket.take(costMs, HALF, nowMs)) taken.push({ atMs: nowMs, costMs });
        }
        for (const [from, first] of taken.entries()) {
          let sumMs = 0;
          let mostMs = 0;
          for (const { atMs, costMs } of taken.slice(from)) {
            sumMs += costMs;
            mostMs = Math.max(mostMs, costMs);
            const grantedMs = HALF.rateMsPerMs * (atMs - first.atMs) + HALF.burstMs;
            expect(sumMs).toBeLessThanOrEqual(grantedMs + mostMs);
          }
        }
      }),
    );
  });

  test("a request is in profile once it waited as long as it was told, and not before", () => {
    fc.assert(
      fc.property(calls, fc.integer({ min: 1, max: 9_000 }), (sequence, costMs) => {
        const bucket = new CostBucket();
        let nowMs = 0;
        for (const call of sequence) bucket.take(call.costMs, HALF, (nowMs += call.gapMs));
        const afterMs = bucket.inProfileAfterMs(costMs, HALF, nowMs);
        expect(afterMs).toBeLessThan(Infinity);
        const early = new CostBucket(copyState(bucket.state));
        expect(early.take(costMs, HALF, nowMs + afterMs - 0.01)).toBe(afterMs === 0);
        expect(bucket.take(costMs, HALF, nowMs + afterMs + 1e-6)).toBe(true);
      }),
    );
  });

  test("a copy of the state goes on as the original does", () => {
    const bucket = new CostBucket();
    bucket.take(4_500, HALF, 100);
    const copy = new CostBucket(copyState(bucket.state));
    const goOn = (revived: CostBucket) => [
      revived.take(1_000, HALF, 500),
      revived.inProfileAfterMs(1_000, HALF, 600),
      revived.take(1_000, HALF, 1_100),
    ];
    expect(goOn(copy)).toEqual(goOn(bucket));
  });
});
