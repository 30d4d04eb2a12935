import { assert } from "../../src/base/assert.ts";
import type { Random } from "../../src/base/random.ts";

/** The levels of every quantile vector here, dense where tails are; the same as ServeGen's. */
export const QUANTILE_LEVELS = [
  0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1,
] as const;

const INTERVALS = QUANTILE_LEVELS.length - 1;
/** The outermost interval holds a thousandth of all prompts. */
const SAMPLE_MIN = 1000;

/**
 * A joint distribution of prompt and answer lengths as quantiles at `QUANTILE_LEVELS`.
 *
 * Answers have one row for each interval between two prompt quantiles, or a single row where both are
 * independent. That keeps how they hang together: hardly in chat, closely in translation, inversely in
 * summaries.
 */
export interface LengthTable {
  readonly promptTokens: readonly number[];
  readonly outputTokensByPrompt: readonly (readonly number[])[];
}

/** The lengths of one request, whole and at least 1. */
export interface RequestLengths {
  readonly promptTokens: number;
  readonly outputTokens: number;
}

/** Draws one request's lengths; always takes two numbers from `random`. */
export function sampleLengths(table: LengthTable, random: Random): RequestLengths {
  return lengthsAt(table, random(), random());
}

/** In each interval: a tail of a thousandth of the requests may have much of the cost. */
const MIDPOINTS = 6;

/** The mean of a price over a table: a sum over midpoints, so without chance and the same every time. */
export function expectedOver(
  table: LengthTable,
  price: (lengths: RequestLengths) => number,
): number {
  const points = midpoints();
  let sum = 0;
  for (const prompt of points) {
    for (const output of points) {
      sum += price(lengthsAt(table, prompt.level, output.level)) * prompt.weight * output.weight;
    }
  }
  return sum;
}

function midpoints(): { level: number; weight: number }[] {
  return QUANTILE_LEVELS.slice(1).flatMap((untilLevel, index) => {
    const fromLevel = QUANTILE_LEVELS[index] ?? 0;
    const weight = (untilLevel - fromLevel) / MIDPOINTS;
    return Array.from({ length: MIDPOINTS }, (_, part) => ({
      level: fromLevel + weight * (part + 0.5),
      weight,
    }));
  });
}

/**
 * Reduces a sample to a table. Prompts of one length stay in the sample's order: sorted by answer, an
 * interval that cuts through them would get all the short ones.
 */
export function fitLengthTable(sample: readonly RequestLengths[]): LengthTable {
  assert(sample.length >= SAMPLE_MIN, "a sample has a request for the rarest interval");
  const byPrompt = sample.toSorted((a, b) => a.promptTokens - b.promptTokens);
  const outputTokensByPrompt = QUANTILE_LEVELS.slice(1).map((untilLevel, index) => {
    const fromLevel = QUANTILE_LEVELS[index] ?? 0;
    const from = Math.floor(fromLevel * byPrompt.length);
    const until = Math.floor(untilLevel * byPrompt.length);
    return quantilesOf(byPrompt.slice(from, until).map(({ outputTokens }) => outputTokens));
  });
  return {
    promptTokens: quantilesOf(byPrompt.map(({ promptTokens }) => promptTokens)),
    outputTokensByPrompt,
  };
}

function quantilesOf(values: readonly number[]): number[] {
  const sorted = values.toSorted((a, b) => a - b);
  return QUANTILE_LEVELS.map((level) => {
    const place = level * (sorted.length - 1);
    const below = sorted[Math.floor(place)] ?? 0;
    const above = sorted[Math.ceil(place)] ?? 0;
    return Math.round(below + (above - below) * (place % 1));
  });
}

function lengthsAt(table: LengthTable, promptLevel: number, outputLevel: number): RequestLengths {
  const rows = table.outputTokensByPrompt;
  const row = rows.length === 1 ? rows[0] : rows[intervalOf(promptLevel)];
  assert(row !== undefined, "a table has one row, or one for each interval of prompts");
  return {
    promptTokens: quantileAt(table.promptTokens, promptLevel),
    outputTokens: quantileAt(row, outputLevel),
  };
}

function intervalOf(level: number): number {
  let index = 0;
  while (index < INTERVALS - 1 && level >= (QUANTILE_LEVELS[index + 1] ?? 1)) index += 1;
  return index;
}

/**
 * Interpolates geometrically between the quantiles around a level: lengths are spread over orders of
 * magnitude, and a straight line over a wide interval would raise the mean by several percent.
 */
function quantileAt(quantiles: readonly number[], level: number): number {
  const index = intervalOf(level);
  const fromLevel = QUANTILE_LEVELS[index] ?? 0;
  const toLevel = QUANTILE_LEVELS[index + 1] ?? 1;
  const from = Math.max(1, quantiles[index] ?? 1);
  const to = Math.max(1, quantiles[index + 1] ?? 1);
  return Math.round(from * (to / from) ** ((level - fromLevel) / (toLevel - fromLevel)));
}
