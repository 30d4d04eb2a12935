import type { CalibrationContext, ForecastDimension } from "./calibration.ts";

/** By predicted / target: [0, ¼), [¼, ½), [½, ¾), [¾, ∞). */
const RATIO_BINS = 4;
/** Of short outputs four more. */
export const BINS = 2 * RATIO_BINS;
/** Expected to have fewer tokens, an output is short: a single prefill beside it shows in its mean. */
export const SHORT_OUTPUT_TOKENS = 48;

/** Where a forecast lies among the bins of its kind: 1.5 is between the middles of the second and the third. */
export interface BinPosition {
  /** The first bin of the kind. */
  readonly first: number;
  /** From 0, the middle of the first bin or below it, to that of the last or above it. */
  readonly place: number;
}

export function binPositionOf(
  dimension: ForecastDimension,
  predictedMs: number,
  { targetMs, outputTokens = Infinity }: CalibrationContext,
): BinPosition {
  const place = RATIO_BINS * (predictedMs / targetMs) - 0.5;
  return {
    first: dimension === "tpot" && outputTokens < SHORT_OUTPUT_TOKENS ? RATIO_BINS : 0,
    place: Math.min(RATIO_BINS - 1, Math.max(0, place)),
  };
}

/** The bin that a forecast is in. */
export function binOf({ first, place }: BinPosition): number {
  return first + Math.round(place);
}

/** The first bin of the kind of this one. */
export function firstBinOf(bin: number): number {
  return bin - (bin % RATIO_BINS);
}
