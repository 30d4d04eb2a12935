import { assert } from "../src/base/assert.ts";
import type { Random } from "../src/base/random.ts";
import { meanOf, RESAMPLES, resampledFigures } from "./statistics.ts";

/** What one seed showed: so many of so many requests. */
export interface SeedShare {
  readonly part: number;
  readonly whole: number;
}

export interface BootstrapOptions {
  readonly random: Random;
  /** How sure: 0.95 is one-sided 95 %. */
  readonly levelRatio?: number;
  readonly resamples?: number;
}

const LEVEL_RATIO = 0.95;

/**
 * An upper bound on a share over seeds, by the percentile bootstrap (Efron, 1979). Seeds are drawn, not
 * requests: those of one seed share its bursts and stalls, and are not independent. Zero where no seed
 * has any, so that the number of requests has to be looked at beside it; `NaN` where there may be none.
 */
export function shareUpperBound(seeds: readonly SeedShare[], options: BootstrapOptions): number {
  return upperBound(seeds, options, (drawn) => {
    let part = 0;
    let whole = 0;
    for (const share of drawn) {
      part += share.part;
      whole += share.whole;
    }
    return part / whole;
  });
}

/**
 * An upper bound on the mean difference of two runs of the same seeds, one entry a seed. What both runs
 * of a seed share cancels out, so far fewer seeds are needed than for two runs of different ones.
 */
export function meanUpperBound(differences: readonly number[], options: BootstrapOptions): number {
  return upperBound(differences, options, meanOf);
}

function upperBound<Sample>(
  samples: readonly Sample[],
  { random, levelRatio = LEVEL_RATIO, resamples = RESAMPLES }: BootstrapOptions,
  statisticOf: (drawn: readonly Sample[]) => number,
): number {
  assert(samples.length > 0, "a bound needs a seed");
  const statistics = resampledFigures(samples, statisticOf, { random, resamples }).toSorted(
    (a, b) => a - b,
  );
  if (statistics.some(Number.isNaN)) return NaN;
  const index = Math.min(resamples - 1, Math.ceil(levelRatio * resamples) - 1);
  return statistics[index] ?? Infinity;
}
