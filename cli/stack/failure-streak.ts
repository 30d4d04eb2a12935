/** Failures in a row before a part that does not answer counts as dead. */
const FAILURES_MIN = 3;
/** How long they must have gone on; a machine that is busy for a moment is no death. */
const STREAK_MS_MIN = 5000;

/** Tells a part that has died without a word from one that was only slow to answer. */
export class FailureStreak {
  #failures = 0;
  #beganAtMs = 0;

  /** Takes the outcome of one question; says whether the part counts as dead now. */
  take(hasAnswered: boolean, nowMs: number): boolean {
    if (hasAnswered) {
      this.#failures = 0;
      return false;
    }
    if (this.#failures === 0) this.#beganAtMs = nowMs;
    this.#failures += 1;
    return this.#failures >= FAILURES_MIN && nowMs - this.#beganAtMs >= STREAK_MS_MIN;
  }
}
