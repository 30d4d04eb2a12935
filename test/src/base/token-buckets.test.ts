import * as fc from "fast-check";
import { expect, test } from "vitest";
import { TokenBuckets } from "../../../src/base/token-buckets.ts";

const RATE = { burst: 3, perSecond: 2 };

test("TokenBuckets.take() gives the burst at once, then tells when there is more", () => {
  const buckets = new TokenBuckets(RATE, 10);
  expect([1, 2, 3].map(() => buckets.take("a", 0))).toEqual([undefined, undefined, undefined]);
  expect(buckets.take("a", 0)).toBe(500);
  expect(buckets.take("a", 499)).toBeCloseTo(1);
  expect(buckets.take("a", 500)).toBeUndefined();
  expect(buckets.take("b", 500)).toBeUndefined();
});

test("TokenBuckets.take() never gives more than the burst and the rate over any time", () => {
  fc.assert(
    fc.property(fc.array(fc.nat({ max: 700 }), { maxLength: 60 }), (pauses) => {
      const buckets = new TokenBuckets(RATE, 10);
      let nowMs = 0;
      let taken = 0;
      for (const pause of pauses) {
        nowMs += pause;
        const waitMs = buckets.take("a", nowMs);
        if (waitMs === undefined) taken += 1;
        expect(taken).toBeLessThanOrEqual(RATE.burst + (nowMs / 1000) * RATE.perSecond + 1e-9);
      }
    }),
  );
});

test("TokenBuckets forgets the name that came longest ago, and takes a clock back for a pause", () => {
  const buckets = new TokenBuckets({ burst: 1, perSecond: 1 }, 2);
  for (const name of ["a", "b", "a", "c"]) buckets.take(name, 1_000);
  expect(buckets.take("a", 1_000)).toBe(1_000);
  expect(buckets.take("b", 1_000)).toBeUndefined();
  expect(buckets.take("a", 0)).toBe(1_000);
});
