import { expect, test } from "vitest";
import { bootstrapInterval, meanOf, quantileOf } from "../../simulator/statistics.ts";
import { seededRandom } from "../../src/base/random.ts";

test("quantileOf() lies between neighbours, whatever their order, and leaves its samples as they are", () => {
  const samples = [40, 10, 30, 20];
  expect([0, 0.5, 0.9, 1].map((ratio) => quantileOf(samples, ratio))).toEqual([10, 25, 37, 40]);
  expect(samples).toEqual([40, 10, 30, 20]);
  expect(quantileOf([7], 0.99)).toBe(7);
  expect(() => quantileOf([], 0.5)).toThrow("a quantile needs samples");
});

test("quantileOf() takes what never came as later than all else", () => {
  expect(quantileOf([Infinity, 1, Infinity], 0.5)).toBe(Infinity);
  expect(quantileOf([Infinity, 1, 2], 0.5)).toBe(2);
  expect(quantileOf([Infinity, 1], 0.5)).toBe(Infinity);
});

test("meanOf() is none of nothing", () => {
  expect(meanOf([1, 2, 6])).toBe(3);
  expect(meanOf([])).toBeNaN();
});

test("bootstrapInterval() of a mean lies around it, as wide as 95 % of a normal distribution", () => {
  const random = seededRandom(5);
  const experiments = Array.from({ length: 50 }, () => {
    const samples = Array.from({ length: 100 }, random);
    const mean = meanOf(samples);
    const { low, high } = bootstrapInterval(samples, meanOf, random);
    const variance = meanOf(samples.map((sample) => (sample - mean) ** 2));
    const errorOfMean = Math.sqrt(variance / samples.length);
    return { below: (mean - low) / errorOfMean, above: (high - mean) / errorOfMean };
  });
  for (const side of ["below", "above"] as const) {
    const width = meanOf(experiments.map((each) => each[side]));
    expect(Math.abs(width - 1.96)).toBeLessThan(0.05);
  }
});

test("bootstrapInterval() is the same for the same chance, and none of nothing", () => {
  const [one, other] = [1, 1].map((seed) =>
    bootstrapInterval([1, 2, 3, 9], meanOf, seededRandom(seed)),
  );
  expect(one).toEqual(other);
  expect(() => bootstrapInterval([], meanOf, seededRandom(1))).toThrow("a figure needs samples");
});
