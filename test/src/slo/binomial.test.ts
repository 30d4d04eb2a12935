import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { binomialInterval, binomialUpperTail, isViolated } from "../../../src/slo/binomial.ts";

/** P(X ≥ k) for p = thousandths / 1000, in whole numbers until the very last division. */
function exactUpperTail(k: number, n: number, thousandths: number): number {
  const good = BigInt(1000 - thousandths);
  const bad = BigInt(thousandths);
  let ways = 1n;
  let sum = 0n;
  for (let i = 0; i <= n; i += 1) {
    if (i >= k) sum += ways * bad ** BigInt(i) * good ** BigInt(n - i);
    ways = (ways * BigInt(n - i)) / BigInt(i + 1);
  }
  const SCALE = 10n ** 60n;
  return Number((sum * SCALE) / 1000n ** BigInt(n)) / 1e60;
}

describe("binomialUpperTail()", () => {
  test("agrees with exact arithmetic", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 120 }),
        fc.integer({ min: 1, max: 999 }),
        fc.nat(121),
        (n, thousandths, k) => {
          const exact = exactUpperTail(k, n, thousandths);
          const tail = binomialUpperTail(k, { n, p: thousandths / 1000 });
          expect(Math.abs(tail - exact)).toBeLessThanOrEqual(1e-9 * exact + 1e-45);
        },
      ),
    );
  });

  // Summed with 60 digits.
  test.each([
    [10_000, 0.01, 5.01349872563667e-1],
    [10_250, 0.01, 6.22742414613693e-3],
    [10_600, 0.01, 1.19592271727814e-9],
    [500_500, 0.5, 1.58897345681653e-1],
    [60, 0.00001, 6.51388761555129e-27],
  ])("of a million trials at least %i: precise in the middle and far out", (k, p, expected) => {
    expect(binomialUpperTail(k, { n: 1e6, p }) / expected).toBeCloseTo(1, 7);
  });

  test("both tails add up to one, from whichever end they are summed", () => {
    const trials = fc.integer({ min: 1, max: 1_000_000 });
    const probability = fc.double({ min: 0.0001, max: 0.9999, noNaN: true });
    fc.assert(
      fc.property(trials, probability, fc.double({ min: -4, max: 4, noNaN: true }), (n, p, z) => {
        const k = Math.round(Math.min(n, Math.max(0, n * p + z * Math.sqrt(n * p * (1 - p)))));
        const upper = binomialUpperTail(k, { n, p });
        const lower = binomialUpperTail(n - k + 1, { n, p: 1 - p });
        expect(upper + lower).toBeCloseTo(1, 6);
      }),
    );
  });

  test("is certain of what must be, and knows what cannot be", () => {
    expect(binomialUpperTail(0, { n: 0, p: 0.5 })).toBe(1);
    expect(binomialUpperTail(1, { n: 0, p: 0.5 })).toBe(0);
    expect(binomialUpperTail(11, { n: 10, p: 0.5 })).toBe(0);
    expect(binomialUpperTail(1, { n: 10, p: 0 })).toBe(0);
    expect(binomialUpperTail(10, { n: 10, p: 1 })).toBe(1);
  });

  test("refuses what is no count and no probability", () => {
    expect(() => binomialUpperTail(1.5, { n: 10, p: 0.5 })).toThrow("whole numbers");
    expect(() => binomialUpperTail(1, { n: 10, p: 1.1 })).toThrow("0–1");
  });
});

/** The least number of bad ones among `n` that is a violation of 1 %. */
function leastBad(n: number): number {
  let bad = 0;
  while (!isViolated(bad, n, 0.01)) bad += 1;
  return bad;
}

describe("isViolated()", () => {
  test("few requests prove little: the least number of bad ones that is no chance at 1 %", () => {
    expect([1, 5, 6, 35, 36, 100, 500].map(leastBad)).toEqual([1, 1, 2, 2, 3, 4, 10]);
  });

  test("no request proves nothing", () => {
    expect(isViolated(0, 0, 0.01)).toBe(false);
  });

  test("an honest system is called a violator no more often than one time in twenty", () => {
    for (const n of [50, 200, 1000]) {
      const bad = leastBad(n);
      expect(binomialUpperTail(bad, { n, p: 0.01 })).toBeLessThan(0.05);
      expect(binomialUpperTail(bad - 1, { n, p: 0.01 })).toBeGreaterThanOrEqual(0.05);
    }
  });
});

describe("binomialInterval()", () => {
  // As tables of the Clopper–Pearson interval have them.
  test.each([
    [0, 10, 0, 0.3085],
    [10, 10, 0.6915, 1],
    [5, 10, 0.1871, 0.8129],
    [99, 100, 0.9455, 0.9997],
    [9_900, 10_000, 0.98785, 0.99186],
  ])("of %i in %i is %d to %d", (k, n, low, high) => {
    const interval = binomialInterval(k, n);
    expect(interval[0]).toBeCloseTo(low, 4);
    expect(interval[1]).toBeCloseTo(high, 4);
  });

  test("holds the share that was seen, and at its ends so many are just so unlikely", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 5_000 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (n, share) => {
          const k = Math.round(n * share);
          const [low, high] = binomialInterval(k, n);
          expect(low).toBeLessThanOrEqual(k / n);
          expect(high).toBeGreaterThanOrEqual(k / n);
          // Where all or nothing came true there is no tail beyond the end.
          const lowTail = k > 0 ? binomialUpperTail(k, { n, p: low }) : 0.025;
          const highTail = k < n ? 1 - binomialUpperTail(k + 1, { n, p: high }) : 0.025;
          expect(lowTail).toBeCloseTo(0.025, 6);
          expect(highTail).toBeCloseTo(0.025, 6);
        },
      ),
    );
  });
});
