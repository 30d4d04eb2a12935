import * as fc from "fast-check";
import { expect, test } from "vitest";
import { seededRandom } from "../../../src/base/random.ts";
import type { RateShape, RateStep } from "../../../simulator/workloads/rate-shape.ts";
import { rateSteps } from "../../../simulator/workloads/rate-shape.ts";

function stepsOf(shapes: readonly RateShape[], countMax: number, seed = 1): RateStep[] {
  const steps: RateStep[] = [];
  for (const step of rateSteps(shapes, seededRandom(seed))) {
    steps.push(step);
    if (steps.length === countMax) break;
  }
  return steps;
}

/** The mean factor over time up to an instant. */
function meanFactor(shape: RateShape, untilMs: number, seed = 1): number {
  let area = 0;
  let fromMs = 0;
  for (const step of rateSteps([shape], seededRandom(seed))) {
    area += (Math.min(step.untilMs, untilMs) - fromMs) * step.factor;
    fromMs = step.untilMs;
    if (fromMs >= untilMs) break;
  }
  return area / untilMs;
}

test("no shape means a factor of 1 for ever", () => {
  expect(stepsOf([], 5)).toEqual([{ untilMs: Infinity, factor: 1 }]);
});

test("a window multiplies the rate inside it and nowhere else", () => {
  expect(stepsOf([{ kind: "window", fromMs: 100, untilMs: 200, factor: 6 }], 5)).toEqual([
    { untilMs: 100, factor: 1 },
    { untilMs: 200, factor: 6 },
    { untilMs: Infinity, factor: 1 },
  ]);
});

test("shapes that overlap multiply", () => {
  const shapes: RateShape[] = [
    { kind: "window", fromMs: 100, untilMs: 300, factor: 2 },
    { kind: "window", fromMs: 200, untilMs: 400, factor: 3 },
  ];
  expect(stepsOf(shapes, 9).map(({ factor }) => factor)).toEqual([1, 2, 6, 3, 1]);
});

test("a ramp starts and ends at its factors and has their mean in between", () => {
  const ramp: RateShape = { kind: "ramp", fromMs: 0, untilMs: 1000, fromFactor: 1, toFactor: 3 };
  expect(meanFactor(ramp, 1000)).toBeCloseTo(2, 9);
  expect(stepsOf([ramp], 99).at(-1)).toEqual({ untilMs: Infinity, factor: 3 });
});

test("a day has a mean of 1 and swings by its ratio to both sides", () => {
  const day: RateShape = { kind: "daily", periodMs: 86_400_000, swingRatio: 0.6 };
  expect(meanFactor(day, 86_400_000)).toBeCloseTo(1, 9);
  const factors = stepsOf([day], 64).map(({ factor }) => factor);
  expect(Math.max(...factors)).toBeCloseTo(1.6, 2);
  expect(Math.min(...factors)).toBeCloseTo(0.4, 2);
});

test.each([10, 30, 100])("peaks of %d times the mean leave the long-run mean at 1", (factor) => {
  const peaks: RateShape = { kind: "peaks", factor, insideRatio: 0.5, peakMeanMs: 1000 };
  expect(meanFactor(peaks, 40_000_000 * factor)).toBeCloseTo(1, 1);
  expect(new Set(stepsOf([peaks], 10).map((step) => step.factor)).has(factor)).toBe(true);
});

test("steps always move forward in time", () => {
  const shape = fc.oneof(
    fc.record({
      kind: fc.constant("peaks" as const),
      factor: fc.double({ min: 2, max: 100, noNaN: true }),
      insideRatio: fc.double({ min: 0.1, max: 0.9, noNaN: true }),
      peakMeanMs: fc.integer({ min: 1, max: 100_000 }),
    }),
    fc.record({
      kind: fc.constant("daily" as const),
      periodMs: fc.integer({ min: 1000, max: 86_400_000 }),
      swingRatio: fc.double({ min: 0, max: 1, noNaN: true }),
    }),
    fc
      .tuple(fc.integer({ min: 0, max: 1000 }), fc.integer({ min: 1, max: 1000 }))
      .map(([fromMs, lengthMs]) => ({
        kind: "window" as const,
        fromMs,
        untilMs: fromMs + lengthMs,
        factor: 5,
      })),
  );
  fc.assert(
    fc.property(fc.array(shape, { maxLength: 4 }), fc.integer(), (shapes, seed) => {
      const steps = stepsOf(shapes, 100, seed);
      for (const [index, step] of steps.entries()) {
        expect(step.factor).toBeGreaterThanOrEqual(0);
        expect(step.untilMs).toBeGreaterThan(steps[index - 1]?.untilMs ?? -1);
      }
    }),
  );
});
