import { unreachable } from "../../src/base/assert.ts";
import type { Random } from "../../src/base/random.ts";
import { exponential } from "./intervals.ts";

/**
 * How a tenant's rate moves around its mean, as a factor over time. Several shapes multiply.
 *
 * `peaks` is an on/off process whose long-run mean stays 1: inside a peak the rate is `factor` times
 * the mean, and `insideRatio` of all requests fall into peaks. ServeGen's tenants peak at 10–100
 * times (median) their own mean.
 */
export type RateShape =
  | {
      readonly kind: "window";
      readonly fromMs: number;
      readonly untilMs: number;
      readonly factor: number;
    }
  | {
      readonly kind: "ramp";
      readonly fromMs: number;
      readonly untilMs: number;
      readonly fromFactor: number;
      readonly toFactor: number;
    }
  | { readonly kind: "daily"; readonly periodMs: number; readonly swingRatio: number }
  | {
      readonly kind: "peaks";
      readonly factor: number;
      readonly insideRatio: number;
      readonly peakMeanMs: number;
    }
  | { readonly kind: "steps"; readonly steps: readonly RateStep[] };

/** A factor that holds until an instant, from the end of the step before. */
export interface RateStep {
  readonly untilMs: number;
  readonly factor: number;
}

/** Smooth shapes move in this many steps over their length: under 2 % of the swing at a time. */
const SMOOTH_STEPS = 64;

/** Yields the product of shapes as steps without end, each later than the one before. */
export function* rateSteps(shapes: readonly RateShape[], random: Random): Generator<RateStep> {
  const walks = shapes.map((shape) => {
    const steps = stepsOf(shape, random);
    return { steps, step: nextOf(steps) };
  });
  for (;;) {
    let untilMs = Infinity;
    let factor = 1;
    for (const { step } of walks) {
      untilMs = Math.min(untilMs, step.untilMs);
      factor *= step.factor;
    }
    yield { untilMs, factor };
    if (untilMs === Infinity) return;
    for (const walk of walks) {
      if (walk.step.untilMs <= untilMs) walk.step = nextOf(walk.steps);
    }
  }
}

/** After its last step a shape leaves the rate alone. */
function nextOf(steps: Iterator<RateStep>): RateStep {
  const next = steps.next();
  return next.done === true ? { untilMs: Infinity, factor: 1 } : next.value;
}

function stepsOf(shape: RateShape, random: Random): Iterator<RateStep> {
  switch (shape.kind) {
    case "window":
      return [
        { untilMs: shape.fromMs, factor: 1 },
        { untilMs: shape.untilMs, factor: shape.factor },
      ].values();
    case "ramp":
      return ramp(shape.fromMs, shape.untilMs, shape.fromFactor, shape.toFactor);
    case "daily":
      return daily(shape.periodMs, shape.swingRatio);
    case "peaks":
      return peaks(shape.factor, shape.insideRatio, shape.peakMeanMs, random);
    case "steps":
      return shape.steps.values();
  }
  return unreachable(shape);
}

/** Stays at `fromFactor` before and at `toFactor` behind. */
function* ramp(
  fromMs: number,
  untilMs: number,
  fromFactor: number,
  toFactor: number,
): Generator<RateStep> {
  yield { untilMs: fromMs, factor: fromFactor };
  for (let step = 0; step < SMOOTH_STEPS; step += 1) {
    const middleRatio = (step + 0.5) / SMOOTH_STEPS;
    yield {
      untilMs: fromMs + ((untilMs - fromMs) * (step + 1)) / SMOOTH_STEPS,
      factor: fromFactor + (toFactor - fromFactor) * middleRatio,
    };
  }
  yield { untilMs: Infinity, factor: toFactor };
}

/** Begins at the mean and rises first. */
function* daily(periodMs: number, swingRatio: number): Generator<RateStep> {
  for (let step = 0; ; step += 1) {
    const angle = (2 * Math.PI * (step + 0.5)) / SMOOTH_STEPS;
    yield {
      untilMs: (periodMs * (step + 1)) / SMOOTH_STEPS,
      factor: 1 + swingRatio * Math.sin(angle),
    };
  }
}

function* peaks(
  factor: number,
  insideRatio: number,
  peakMeanMs: number,
  random: Random,
): Generator<RateStep> {
  const timeInsideRatio = insideRatio / factor;
  const calmFactor = (1 - insideRatio) / (1 - timeInsideRatio);
  const calmMeanMs = (peakMeanMs * (1 - timeInsideRatio)) / timeInsideRatio;
  // Beginning as if it had run forever, so that the mean holds from the first second on.
  let isPeak = random() < timeInsideRatio;
  let untilMs = 0;
  for (;;) {
    untilMs += (isPeak ? peakMeanMs : calmMeanMs) * exponential(random);
    yield { untilMs, factor: isPeak ? factor : calmFactor };
    isPeak = !isPeak;
  }
}
