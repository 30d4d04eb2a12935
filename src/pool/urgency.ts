import { URGENCY_MAX } from "../protocol/urgency.ts";

/** What decides how urgent a request is. */
export interface UrgencyFacts {
  /** Whether it is within what its tenant is guaranteed. */
  readonly isInProfile: boolean;
  /** Of its tenant; lower is more urgent. */
  readonly band: number;
  /** Until it is due as promised; `Infinity` where nothing is. */
  readonly leftMs: number;
}

/** What one band is worth, as it is to those who wait in the pool: who waits gains one so often. */
const BAND_MS = 2_000;
/** Each is four times the one before: twice as long to go is no other urgency. */
const LEFT_MS_MAX = [500, 2_000, 8_000, 32_000] as const;
/** Steps for those in profile, and as many for the others. */
const STEPS = LEFT_MS_MAX.length + 1;

/**
 * How urgent a request is where an engine serves the more urgent first: from 0 to {@link URGENCY_MAX}, in the order of
 * those who wait in the pool. What is guaranteed comes before all that is not; among either, what is due
 * earlier, by steps, and bands count as time.
 */
export function urgencyOf({ isInProfile, band, leftMs }: UrgencyFacts): number {
  const dueMs = leftMs + band * BAND_MS;
  const early = LEFT_MS_MAX.filter((limitMs) => dueMs <= limitMs).length;
  return Math.min(URGENCY_MAX, (isInProfile ? STEPS : 0) + early);
}
