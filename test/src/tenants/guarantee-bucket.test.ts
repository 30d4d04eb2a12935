import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { copyState } from "../../../src/base/plain-state.ts";
import { CostBucket } from "../../../src/tenants/cost-bucket.ts";
import { GuaranteeBucket } from "../../../src/tenants/guarantee-bucket.ts";

/** A tenth of ten replicas: two seconds of it are 2,000 GPU-ms, ten seconds 10,000; two of the pool 20,000. */
const TENTH = { rateMsPerMs: 1, poolRateMsPerMs: 10 };

/** How much is within a guarantee, in requests of 100 GPU-ms. */
function takenMs(bucket: GuaranteeBucket, nowMs: number): number {
  let sumMs = 0;
  while (sumMs < 100_000 && bucket.take(100, TENTH, nowMs)) sumMs += 100;
  return sumMs;
}

describe("GuaranteeBucket", () => {
  test("a tenant that alone comes in a burst has ten seconds of its rate at once", () => {
    expect(takenMs(new GuaranteeBucket(new CostBucket()), 0)).toBe(10_000);
  });

  test("of nine in a burst together each has two seconds of its rate, and the pool little more than two of its own", () => {
    const joint = new CostBucket();
    const tenants = Array.from({ length: 9 }, () => new GuaranteeBucket(joint));
    const taken = tenants.map((bucket) => takenMs(bucket, 0));
    expect(Math.min(...taken)).toBe(2_000);
    expect(taken.reduce((sum, each) => sum + each)).toBeLessThanOrEqual(20_000 + 9 * 2_000);
  });

  test("whoever keeps to its rate is within its guarantee, however much others claim", () => {
    const joint = new CostBucket();
    const greedy = Array.from({ length: 9 }, () => new GuaranteeBucket(joint));
    const steady = new GuaranteeBucket(joint);
    for (let nowMs = 0; nowMs < 60_000; nowMs += 100) {
      for (const bucket of greedy) takenMs(bucket, nowMs);
      expect(steady.take(100, TENTH, nowMs)).toBe(true);
    }
  });

  test("a burst leaves no debt of the rate: it goes on at once", () => {
    const joint = new CostBucket();
    const bucket = new GuaranteeBucket(joint);
    expect(takenMs(bucket, 0)).toBe(10_000);
    expect(bucket.take(100, TENTH, 99)).toBe(false);
    expect(bucket.take(100, TENTH, 100)).toBe(true);
  });

  test("says when it would say yes", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 4_000 }), { minLength: 1, maxLength: 30 }),
        fc.integer({ min: 1, max: 3_000 }),
        fc.nat(20_000),
        (costs, costMs, othersMs) => {
          const joint = new CostBucket();
          joint.exhaust(othersMs, { rateMsPerMs: 10, burstMs: 20_000 }, 0);
          const bucket = new GuaranteeBucket(joint);
          for (const each of costs) bucket.take(each, TENTH, 0);
          const afterMs = bucket.inProfileAfterMs(costMs, TENTH, 0);
          const earlier = new GuaranteeBucket(
            new CostBucket(copyState(joint.state)),
            copyState(bucket.state),
          );
          expect(afterMs > 1 && earlier.take(costMs, TENTH, afterMs - 1)).toBe(false);
          expect(bucket.take(costMs, TENTH, afterMs + 0.01)).toBe(true);
        },
      ),
    );
  });

  test("what cost less than it took is there again, for the tenant and for all", () => {
    const joint = new CostBucket();
    const bucket = new GuaranteeBucket(joint);
    takenMs(bucket, 0);
    bucket.correct(-1_000, TENTH, 0);
    expect(takenMs(bucket, 0)).toBe(1_000);
    expect(joint.state.spentMs).toBe(10_000);
  });

  test("without a guarantee nothing is within it, and never will be", () => {
    const bucket = new GuaranteeBucket(new CostBucket());
    const nothing = { rateMsPerMs: 0, poolRateMsPerMs: 10 };
    expect(bucket.take(1, nothing, 0)).toBe(false);
    expect(bucket.inProfileAfterMs(1, nothing, 0)).toBe(Infinity);
  });
});
