import { assert } from "../src/base/assert.ts";
import type { Random } from "../src/base/random.ts";

/** Bounds between which a figure lies with a probability of 95 %. */
export interface Interval {
  readonly low: number;
  readonly high: number;
}

export const RESAMPLES = 2000;
const TAIL_RATIO = 0.025;

/** Returns the mean; `NaN` of nothing. */
export function meanOf(samples: readonly number[]): number {
  return samples.reduce((sum, sample) => sum + sample, 0) / samples.length;
}

/** Returns the value below which a share of the samples lies, interpolated between neighbours. */
export function quantileOf(samples: readonly number[], ratio: number): number {
  assert(samples.length > 0, "a quantile needs samples");
  // Typed arrays sort numbers several times as fast.
  const sorted = Float64Array.from(samples).toSorted();
  const position = (sorted.length - 1) * ratio;
  const lower = sorted[Math.floor(position)] ?? 0;
  const upper = sorted[Math.ceil(position)] ?? 0;
  // Infinite samples have no middle between them.
  return lower === upper ? lower : lower + (upper - lower) * (position - Math.floor(position));
}

/**
 * Returns how sure a figure of some samples is: it is computed again from samples drawn out of these
 * with replacement, many times, and the interval leaves out the lowest and highest 2.5 %.
 */
export function bootstrapInterval<Sample>(
  samples: readonly Sample[],
  figureOf: (samples: readonly Sample[]) => number,
  random: Random,
): Interval {
  const figures = resampledFigures(samples, figureOf, { random, resamples: RESAMPLES });
  return { low: quantileOf(figures, TAIL_RATIO), high: quantileOf(figures, 1 - TAIL_RATIO) };
}

/** Returns a figure of samples drawn out of these with replacement, as many as there are, so many times. */
export function resampledFigures<Sample>(
  samples: readonly Sample[],
  figureOf: (samples: readonly Sample[]) => number,
  { random, resamples }: { readonly random: Random; readonly resamples: number },
): number[] {
  assert(samples.length > 0, "a figure needs samples");
  return Array.from({ length: resamples }, () =>
    figureOf(samples.map(() => drawFrom(samples, random))),
  );
}

function drawFrom<Sample>(samples: readonly Sample[], random: Random): Sample {
  const sample = samples[Math.floor(random() * samples.length)];
  assert(sample !== undefined, "chance lies in [0, 1)");
  return sample;
}
