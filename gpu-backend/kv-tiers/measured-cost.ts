/** What a new measurement counts. */
const LEARNED_RATIO = 0.1;
/** One stall is no news of the speed: a measurement counts as at most so many times what was believed. */
const SLOWDOWN_MAX = 8;
/** After this long without a measurement half of what was learned is forgotten. */
const HALF_LIFE_MS = 10_000;

/**
 * What something takes, as measured. What was slow once is not used any more and so not measured either:
 * therefore what was learned fades towards what was believed at first, and in the end it is tried again.
 */
export class MeasuredCost {
  readonly #priorMs: number;
  #learnedMs: number;
  #learnedAtMs = 0;

  /** `priorMs` is more than 0. */
  constructor(priorMs: number) {
    this.#priorMs = priorMs;
    this.#learnedMs = priorMs;
  }

  at(nowMs: number): number {
    const kept = 2 ** (-Math.max(0, nowMs - this.#learnedAtMs) / HALF_LIFE_MS);
    return this.#priorMs + kept * (this.#learnedMs - this.#priorMs);
  }

  record(measuredMs: number, nowMs: number): void {
    const believedMs = this.at(nowMs);
    const boundedMs = Math.min(measuredMs, SLOWDOWN_MAX * believedMs);
    this.#learnedMs = believedMs + LEARNED_RATIO * (boundedMs - believedMs);
    this.#learnedAtMs = nowMs;
  }
}
