import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Refusal, RetryAfterLimits } from "../../../src/admission/retry-after.ts";
import { noPromises, RetryAfter } from "../../../src/admission/retry-after.ts";
import { allSpareRoom } from "../../../src/admission/spare-room.ts";
import { copyState } from "../../../src/base/plain-state.ts";
import type { Random } from "../../../src/base/random.ts";
import { seededRandom } from "../../../src/base/random.ts";
import { TenantId } from "../../../src/protocol/ids.ts";
import { CostBucket, costProfile } from "../../../src/tenants/cost-bucket.ts";

const middle: Random = () => 0.5;

function refusal(
  changes: Partial<Omit<Refusal, "tenantId">> & { tenantId?: string } = {},
): Refusal {
  const { tenantId = "a", ...others } = changes;
  return {
    tenantId: TenantId.parse(tenantId),
    costMs: 30,
    isInProfile: false,
    inProfileAfterMs: 5_000,
    backlogDrainsAfterMs: 2_000,
    shareMsPerMs: 0.1,
    poolMsPerMs: 4,
    ...others,
  };
}

/** Of a pool that has refused for as long as anybody remembers. */
function underOverload(limits: Partial<RetryAfterLimits> = {}): RetryAfter {
  return new RetryAfter(limits, {
    ...noPromises(),
    spareRoom: { ...allSpareRoom(), refusingRatio: 1, refusedAtMs: 0 },
  });
}

describe("RetryAfter", () => {
  test("excess comes back when its bucket holds it, what is in profile when the backlog is gone", () => {
    expect(underOverload().promiseMs(refusal(), middle, 0)).toBe(5_000);
    expect(underOverload().promiseMs(refusal({ isInProfile: true }), middle, 0)).toBe(2_000);
  });

  test("who is guaranteed nothing comes back when the backlog is gone", () => {
    const nothing = refusal({ inProfileAfterMs: Infinity });
    expect(underOverload().promiseMs(nothing, middle, 0)).toBe(2_000);
  });

  test("a tenant's refusals come back one behind the other, not all at once", () => {
    const retryAfter = underOverload();
    // 30 GPU-ms at 15 % of a tenth of a replica take 2 s.
    const told = [0, 0, 0, 500].map((nowMs) => retryAfter.promiseMs(refusal(), middle, nowMs));
    expect(told).toEqual([5_000, 7_000, 9_000, 10_500]);
  });

  test("after a burst that a free pool had, they come back as fast as it serves them", () => {
    const retryAfter = new RetryAfter();
    // A burst of which a few were sent: 60 requests of 30 GPU-ms, behind a backlog of half a second.
    for (let index = 0; index < 5; index++) retryAfter.sent(30, 600_000);
    const burst = refusal({ backlogDrainsAfterMs: 500 });
    const told = Array.from({ length: 55 }, () => retryAfter.promiseMs(burst, middle, 600_000));
    expect(told[0]).toBe(1_250);
    // 30 ms at a quarter of a pool of four are 30 ms: each a little behind the one before.
    expect(told[54]).toBeGreaterThan(500 + 54 * 30);
    expect(told[54]).toBeLessThan(3_000);
  });

  test("excess of a pool that is half free need not wait for all of its bucket", () => {
    const retryAfter = new RetryAfter();
    // Half of what four replicas do in the time that is remembered.
    for (let second = 0; second < 120; second++) retryAfter.sent(2_000, second * 1_000);
    const told = retryAfter.promiseMs(refusal(), middle, 119_000);
    expect(told).toBeGreaterThan(3_300);
    expect(told).toBeLessThan(3_700);
  });

  test("one tenant's refusals do not put off another's", () => {
    const retryAfter = underOverload();
    for (let index = 0; index < 50; index++) retryAfter.promiseMs(refusal(), middle, 0);
    expect(retryAfter.promiseMs(refusal({ tenantId: "b" }), middle, 0)).toBe(5_000);
  });

  test("promises that are past put nobody off", () => {
    const retryAfter = underOverload();
    for (let index = 0; index < 3; index++) retryAfter.promiseMs(refusal(), middle, 0);
    const nothingToSpare = refusal({ poolMsPerMs: 0 });
    expect(retryAfter.promiseMs(nothingToSpare, middle, 20_000)).toBe(5_000);
    expect(retryAfter.state.promised.entries).toHaveLength(1);
  });

  test("the tenants remembered are bounded, and those forgotten are the first to be free", () => {
    const retryAfter = underOverload({ tenantsMax: 2 });
    for (const [index, tenantId] of ["a", "b", "c"].entries()) {
      retryAfter.promiseMs(refusal({ tenantId, costMs: 60 - index }), middle, 0);
      retryAfter.checkInvariants();
    }
    expect(retryAfter.promiseMs(refusal({ tenantId: "a" }), middle, 0)).toBeGreaterThan(5_000);
    expect(retryAfter.promiseMs(refusal({ tenantId: "c" }), middle, 0)).toBe(5_000);
  });

  const times = fc.double({ min: 0, noDefaultInfinity: false, noNaN: true });

  test("nobody is told less than a second, more than a minute, or more than a fifth beside the point", () => {
    fc.assert(
      fc.property(
        times,
        times,
        times,
        fc.boolean(),
        fc.nat(),
        (a, b, costMs, isInProfile, seed) => {
          const given = { inProfileAfterMs: a, backlogDrainsAfterMs: b, costMs, isInProfile };
          const told = underOverload().promiseMs(refusal(given), seededRandom(seed), 0);
          expect(told).toBeGreaterThanOrEqual(1_000 - 1e-6);
          expect(told).toBeLessThanOrEqual(60_000 + 1e-6);
          const exact = underOverload().promiseMs(refusal(given), middle, 0);
          expect(told / exact).toBeGreaterThanOrEqual(0.8 - 1e-9);
          expect(told / exact).toBeLessThanOrEqual(1.2 + 1e-9);
        },
      ),
    );
  });

  test("those who are told the most are not told the same", () => {
    const random = seededRandom(1);
    const far = refusal({ inProfileAfterMs: 1e9 });
    const told = Array.from({ length: 50 }, () => underOverload().promiseMs(far, random, 0));
    expect(new Set(told).size).toBe(50);
  });

  test("a share of nothing is told the most from the second refusal on, never nonsense", () => {
    const retryAfter = underOverload();
    const nothing = refusal({ shareMsPerMs: 0 });
    const told = [0, 0, 0].map((nowMs) => retryAfter.promiseMs(nothing, middle, nowMs));
    expect(told).toEqual([5_000, 50_000, 50_000]);
  });

  test("a copy of the state goes on as the original does", () => {
    const retryAfter = underOverload();
    retryAfter.promiseMs(refusal(), middle, 0);
    const copy = new RetryAfter({}, copyState(retryAfter.state));
    const goOn = (revived: RetryAfter) =>
      [1, 2, 3].map((nowMs) => revived.promiseMs(refusal(), middle, nowMs));
    expect(goOn(copy)).toEqual(goOn(retryAfter));
  });

  interface Arrival {
    readonly atMs: number;
    readonly isRetry: boolean;
  }

  /**
   * One tenant at 2.5× its share for 10 s and at 0.8× from then on, with nothing but its bucket. Returns
   * which share of those is admitted that come back after the burst as they were told.
   */
  function admittedRetries(
    seed: number,
    promise: (refusal: Refusal, nowMs: number) => number,
  ): number {
    const random = seededRandom(seed);
    const bucket = new CostBucket();
    const profile = costProfile(1);
    const costMs = 50;
    const arrivals: Arrival[] = [];
    let atMs = 0;
    while (atMs < 120_000) {
      atMs += (-Math.log(1 - random()) * costMs) / (atMs < 10_000 ? 2.5 : 0.8);
      arrivals.push({ atMs, isRetry: false });
    }
    let retries = 0;
    let admitted = 0;
    for (let next = 0; next < arrivals.length; next++) {
      const { atMs: nowMs, isRetry } = arrivals[next] ?? { atMs: 0, isRetry: false };
      const isAdmitted = bucket.take(costMs, profile, nowMs);
      if (isRetry && nowMs > 10_000) {
        retries += 1;
        admitted += Number(isAdmitted);
      }
      if (isAdmitted) continue;
      const inProfileAfterMs = bucket.inProfileAfterMs(costMs, profile, nowMs);
      const refused = refusal({ costMs, shareMsPerMs: 1, poolMsPerMs: 0, inProfileAfterMs });
      const backAtMs = nowMs + promise(refused, nowMs);
      const place = arrivals.findIndex((one) => one.atMs > backAtMs);
      if (place >= 0) arrivals.splice(place, 0, { atMs: backAtMs, isRetry: true });
    }
    expect(retries).toBeGreaterThan(20);
    return admitted / retries;
  }

  const SEEDS = Array.from({ length: 20 }, (_, seed) => seed);

  test("after a burst 95 % of those who come back as told are admitted", () => {
    for (const seed of SEEDS) {
      const retryAfter = underOverload();
      const random = seededRandom(seed + 1_000);
      const promise = (one: Refusal, nowMs: number) => retryAfter.promiseMs(one, random, nowMs);
      expect(admittedRetries(seed, promise)).toBeGreaterThanOrEqual(0.95);
    }
  });

  test("told no more than when the bucket refills, most are refused again", () => {
    for (const seed of SEEDS) {
      const ratio = admittedRetries(seed, (one) => Math.max(1_000, one.inProfileAfterMs));
      expect(ratio).toBeLessThan(0.5);
    }
  });
});
