/** What is known of an attempt to have a request answered when it begins; durations from there. */
export interface AttemptOutlook {
  /** By then the answer is there, at the level that is promised. */
  readonly boundMs: number;
  /** By then it is due; `Infinity` where nothing is promised. */
  readonly budgetMs: number;
}

/** An answer so many times as late as its bound will hardly come any more. */
const LATE_RATIO = 3;
/** An attempt may take this share of the time at least: haste would abort what is merely slow. */
const BUDGET_RATIO = 0.4;
const SHARE_MS_MAX = 5_000;
/** What any attempt is given, this one and the next: in bounds of this one, and for the way there. */
const ATTEMPT_RATIO_MIN = 1.5;
const ATTEMPT_MS_MIN = 100;

/**
 * How long an attempt may go without an answer before another replica is asked: long enough that one
 * which is alive is hardly ever given up, and so short that another one could still be in time.
 * Where no other could be in any case, only the former counts.
 */
export function attemptLimitMs({ boundMs, budgetMs }: AttemptOutlook): number {
  const leastMs = Math.max(ATTEMPT_RATIO_MIN * boundMs, ATTEMPT_MS_MIN);
  const shareMs = Math.min(BUDGET_RATIO * budgetMs, SHARE_MS_MAX);
  const patientMs = Math.max(leastMs, LATE_RATIO * boundMs, shareMs);
  const sparedMs = budgetMs - leastMs;
  return sparedMs < leastMs ? patientMs : Math.min(patientMs, sparedMs);
}
