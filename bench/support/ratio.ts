import type { Random } from "../../src/base/random.ts";
import { bootstrapInterval, quantileOf } from "../../simulator/statistics.ts";

/** A figure of several repetitions, with an interval of 95 %. */
export interface Figure {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

function figureOf(samples: readonly number[], random: Random): Figure {
  return { median: medianOf(samples), ...bootstrapInterval(samples, medianOf, random) };
}

export const medianOf = (samples: readonly number[]) => quantileOf(samples, 0.5);

/** How many times the first is the second, by neighbours in time: what slowed a whole repetition down cancels out. */
export function ratioOf(
  above: readonly number[],
  below: readonly number[],
  random: Random,
): Figure {
  return figureOf(
    above.map((value, index) => value / (below[index] ?? Number.NaN)),
    random,
  );
}

export function show({ median, low, high }: Figure, digits = 2): string {
  return `${median.toFixed(digits)} [${low.toFixed(digits)}, ${high.toFixed(digits)}]`;
}
