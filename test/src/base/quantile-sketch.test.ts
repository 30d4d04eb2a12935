import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { copyState } from "../../../src/base/plain-state.ts";
import { QuantileSketch } from "../../../src/base/quantile-sketch.ts";

const RATIOS = [0, 0.01, 0.5, 0.9, 0.99, 1];
const value = fc.oneof(
  fc.double({ min: 1e-9, max: 1e9, noNaN: true }),
  fc.constantFrom(0, 1, 100, Number.POSITIVE_INFINITY),
);
const values = fc.array(value, { minLength: 1, maxLength: 200 });

function sketchOf(numbers: readonly number[], options = {}): QuantileSketch {
  const sketch = new QuantileSketch(options);
  for (const number of numbers) sketch.add(number);
  sketch.checkInvariants();
  return sketch;
}

function exactQuantile(numbers: readonly number[], ratio: number): number | undefined {
  return numbers.toSorted((a, b) => a - b)[Math.floor(ratio * (numbers.length - 1))];
}

describe("QuantileSketch", () => {
  test("a sketch of nothing has no quantiles", () => {
    expect(new QuantileSketch().quantile(0.5)).toBeUndefined();
  });

  test("every quantile is within one percent of the exact one, infinity included", () => {
    fc.assert(
      fc.property(values, fc.constantFrom(...RATIOS), (numbers, ratio) => {
        const exact = exactQuantile(numbers, ratio) ?? Number.NaN;
        const near = sketchOf(numbers).quantile(ratio) ?? Number.NaN;
        const errorRatio = near === exact ? 0 : Math.abs(near / exact - 1);
        expect(errorRatio).toBeLessThanOrEqual(0.01 + 1e-9);
      }),
    );
  });

  test("a merge is the sketch of all values, and leaves the other one as it was", () => {
    fc.assert(
      fc.property(values, values, (left, right) => {
        const merged = sketchOf(left);
        const other = sketchOf(right);
        const before = copyState(other.state);
        merged.merge(other);
        merged.checkInvariants();
        const whole = sketchOf([...left, ...right]);
        expect(merged.count).toBe(whole.count);
        for (const ratio of RATIOS) expect(merged.quantile(ratio)).toBe(whole.quantile(ratio));
        expect(other.state).toEqual(before);
      }),
    );
  });

  test("sketches of different errors do not merge", () => {
    expect(() => sketchOf([1]).merge(sketchOf([1], { errorRatio: 0.02 }))).toThrow("one error");
  });

  test("it refuses what is negative or not a number", () => {
    expect(() => new QuantileSketch().add(-1)).toThrow("not negative");
    expect(() => new QuantileSketch().add(Number.NaN)).toThrow("not negative");
  });

  test("too many buckets cost precision at the bottom, and the top keeps its own", () => {
    const numbers = Array.from({ length: 1000 }, (_, index) => 1.1 ** index);
    const sketch = sketchOf(numbers, { bucketsMax: 100 });
    expect(sketch.state.countByBucket.size).toBe(100);
    expect(sketch.count).toBe(1000);
    const ratioAt = (ratio: number) =>
      (sketch.quantile(ratio) ?? 0) / (exactQuantile(numbers, ratio) ?? 1);
    expect(Math.abs(ratioAt(0.95) - 1)).toBeLessThanOrEqual(0.01 + 1e-9);
    expect(ratioAt(0.01)).toBeGreaterThan(2);
  });

  test("values that come after the lowest buckets fell together are still counted", () => {
    const sketch = sketchOf([1e6, 1e5, 1e4, 10, 1, 100], { bucketsMax: 3 });
    sketch.merge(sketchOf([0.1, 1e7]));
    sketch.checkInvariants();
    expect(sketch.count).toBe(8);
    expect(sketch.state.countByBucket.size).toBe(3);
    expect(Math.abs((sketch.quantile(1) ?? 0) / 1e7 - 1)).toBeLessThanOrEqual(0.01 + 1e-9);
  });

  test("one that goes on from a copy of its state answers the same as the original", () => {
    fc.assert(
      fc.property(values, values, (before, after) => {
        const original = sketchOf(before);
        const revived = new QuantileSketch({}, copyState(original.state));
        for (const number of after) {
          original.add(number);
          revived.add(number);
        }
        revived.checkInvariants();
        expect(revived.state).toEqual(original.state);
        for (const ratio of RATIOS) expect(revived.quantile(ratio)).toBe(original.quantile(ratio));
      }),
    );
  });
});
