import { describe, expect, test } from "vitest";
import { seededRandom } from "../../src/base/random.ts";
import { meanUpperBound, shareUpperBound } from "../../simulator/bootstrap.ts";

const WHOLE = 400;
const TRUE_RATIO = 0.02;
const SEEDS = 20;
const TRIALS = 150;

describe("shareUpperBound()", () => {
  test("lies above the true share about as often as its level says", () => {
    const random = seededRandom(1);
    let covered = 0;
    for (let trial = 0; trial < TRIALS; trial += 1) {
      const seeds = Array.from({ length: SEEDS }, () => {
        let part = 0;
        for (let request = 0; request < WHOLE; request += 1) if (random() < TRUE_RATIO) part += 1;
        return { part, whole: WHOLE };
      });
      if (shareUpperBound(seeds, { random, resamples: 300 }) >= TRUE_RATIO) covered += 1;
    }
    expect(covered / TRIALS).toBeGreaterThan(0.87);
    expect(covered / TRIALS).toBeLessThan(1);
  });

  test("one bad seed among good ones raises the bound far above the share", () => {
    const seeds = Array.from({ length: SEEDS }, () => ({ part: 0, whole: 100 }));
    const withBad = [...seeds.slice(1), { part: 40, whole: 100 }];
    const random = seededRandom(2);
    expect(shareUpperBound(seeds, { random })).toBe(0);
    expect(shareUpperBound(withBad, { random })).toBeGreaterThan(0.04);
  });

  test("a share of nothing has no bound, so that it cannot keep one", () => {
    const nothing = { part: 0, whole: 0 };
    expect(shareUpperBound([nothing, nothing], { random: seededRandom(6) })).toBeNaN();
  });

  test("is not below the share itself, and needs at least one seed", () => {
    const random = seededRandom(3);
    expect(shareUpperBound([{ part: 3, whole: 10 }], { random })).toBeCloseTo(0.3);
    expect(() => shareUpperBound([], { random })).toThrow("a bound needs a seed");
  });
});

describe("meanUpperBound()", () => {
  test("is no number where a seed has no difference", () => {
    expect(meanUpperBound([0, 0, NaN, 0], { random: seededRandom(5) })).toBeNaN();
  });

  test("is near the mean when all seeds agree, and far from it when they do not", () => {
    const random = seededRandom(4);
    const agreeing = Array.from({ length: SEEDS }, (_, index) => 1 + 0.001 * index);
    const differing = agreeing.map((value, index) => (index % 2 === 0 ? value + 5 : value - 5));
    expect(meanUpperBound(agreeing, { random })).toBeLessThan(1.02);
    expect(meanUpperBound(differing, { random })).toBeGreaterThan(2);
  });
});
