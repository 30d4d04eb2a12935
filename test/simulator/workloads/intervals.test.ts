import * as fc from "fast-check";
import { expect, test } from "vitest";
import { seededRandom } from "../../../src/base/random.ts";
import type { IntervalShape } from "../../../simulator/workloads/intervals.ts";
import { intervalSampler } from "../../../simulator/workloads/intervals.ts";
import { cvOf, meanOf } from "./moments.ts";

function drawn(shape: IntervalShape, count: number, seed = 1): number[] {
  const random = seededRandom(seed);
  const next = intervalSampler(shape);
  return Array.from({ length: count }, () => next(random));
}

const DRAWS = 100_000;

test.each(["gamma", "weibull"] as const)(
  "%s gaps have mean 1 and the CV that is asked for",
  (kind) => {
    for (const cv of [0.3, 1, 1.5, 2, 4, 8]) {
      const gaps = drawn({ kind, cv }, DRAWS);
      // The mean's own standard error is cv / √n, and the CV of a heavy tail converges slower still.
      expect(Math.abs(meanOf(gaps) - 1)).toBeLessThan((5 * cv) / Math.sqrt(DRAWS));
      expect(Math.abs(cvOf(gaps) / cv - 1)).toBeLessThan(0.08);
    }
  },
);

test("Poisson gaps are exponential: mean and CV are 1, and 1/e of them are above the mean", () => {
  const gaps = drawn({ kind: "poisson" }, DRAWS);
  expect(meanOf(gaps)).toBeCloseTo(1, 1);
  expect(cvOf(gaps)).toBeCloseTo(1, 1);
  expect(gaps.filter((gap) => gap > 1).length / DRAWS).toBeCloseTo(Math.exp(-1), 2);
});

test("Gamma and Weibull of CV 1 are both exponential", () => {
  for (const kind of ["gamma", "weibull"] as const) {
    const above = drawn({ kind, cv: 1 }, DRAWS).filter((gap) => gap > 1);
    expect(above.length / DRAWS).toBeCloseTo(Math.exp(-1), 2);
  }
});

test("every gap is finite and not negative, whatever the CV and the seed", () => {
  fc.assert(
    fc.property(
      fc.constantFrom("gamma", "weibull"),
      fc.double({ min: 0.1, max: 30, noNaN: true }),
      fc.integer(),
      (kind, cv, seed) => {
        const gaps = drawn({ kind, cv }, 50, seed);
        expect(gaps.every((gap) => gap >= 0 && gap < Infinity)).toBe(true);
      },
    ),
  );
});
