import type { AttainmentCounts } from "./attainment-window.ts";

/**
 * What a window says, side by side, because each of these alone is improved by refusing or by
 * serving less than was asked for. A share of nothing is absent.
 */
export interface Goodput {
  /** Good among the admitted ones that were judged and not degraded (A). */
  readonly admittedAttainmentRatio: number | undefined;
  /** Not refused among those that were within what their tenant is guaranteed. */
  readonly inProfileAcceptanceRatio: number | undefined;
  /** Good among all that were offered. */
  readonly offeredGoodRatio: number | undefined;
  /** Of the predicted cost of all that was offered, what was good: large requests count for more. */
  readonly offeredGoodCostRatio: number | undefined;
  readonly goodPerSecond: number;
  /** GPU-ms of good requests a second. */
  readonly goodCostMsPerSecond: number;
  /** Degraded among all that were judged. */
  readonly degradedRatio: number | undefined;
}

/** Works out the shares and rates of what was counted in `windowMs`. */
export function toGoodput(counts: AttainmentCounts, windowMs: number): Goodput {
  const { good, missed, degraded, offered, offeredInProfile, rejectedInProfile } = counts;
  const seconds = windowMs / 1000;
  return {
    admittedAttainmentRatio: ratioOf(good, good + missed),
    inProfileAcceptanceRatio: ratioOf(
      // In a short window more may be refused than was offered: those had waited before it began.
      Math.max(0, offeredInProfile - rejectedInProfile),
      offeredInProfile,
    ),
    offeredGoodRatio: ratioOf(good, offered),
    offeredGoodCostRatio: ratioOf(counts.goodCostMs, counts.offeredCostMs),
    goodPerSecond: good / seconds,
    goodCostMsPerSecond: counts.goodCostMs / seconds,
    degradedRatio: ratioOf(degraded, good + missed + degraded),
  };
}

function ratioOf(part: number, whole: number): number | undefined {
  return whole > 0 ? part / whole : undefined;
}
