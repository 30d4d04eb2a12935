import { assert } from "../base/assert.ts";

/** What a {@link CostSurprise} remembers: what came unforeseen of late, older ones fading. */
export interface CostSurpriseState {
  /** Never negative: that requests were cheap before hides nothing of what they are now. */
  sumMs: number;
  squaresMs2: number;
  /** What those that ended were foreseen to cost. */
  foreseenMs: number;
  isSurprised: boolean;
  updatedAtMs?: number;
}

/** Shorter, and a few long answers are forgotten before there are enough; longer, and noise grows. */
const HALF_LIFE_MS = 4_000;
/** By chance hardly ever, though it is looked at twice a second and costs have heavy tails. */
const SURPRISED_DEVIATIONS = 4;
/** Of many requests a small error is certain soon, and of no consequence. */
const SURPRISED_RATIO = 0.25;
/** Back to normal; between the two it stays what it was, so that nobody gets in by turns. */
const CALM_DEVIATIONS = 1;

/** A tenant of whom nothing came unforeseen. */
export function noSurprise(): CostSurpriseState {
  return { sumMs: 0, squaresMs2: 0, foreseenMs: 0, isSurprised: false };
}

/**
 * Tells whether a tenant's requests cost more than was foreseen, and by more than chance explains.
 *
 * What is expected of a request rises while it goes on and falls when it ends. Where expectations are
 * right these changes have a mean of zero, whatever lengths are like (they are a martingale's), so their
 * sum over the root of their squares is about normal: one very long answer is no surprise, many long ones are.
 */
export class CostSurprise {
  readonly state: CostSurpriseState;

  constructor(state: CostSurpriseState = noSurprise()) {
    this.state = state;
  }

  get isSurprised(): boolean {
    return this.state.isSurprised;
  }

  /** What is expected of a request has changed by so much. */
  add(deltaMs: number, nowMs: number): void {
    const { state } = this;
    this.#fade(nowMs);
    state.sumMs = Math.max(0, state.sumMs + deltaMs);
    state.squaresMs2 += deltaMs ** 2;
  }

  /** A request has ended that was foreseen to cost so much. */
  ended(foreseenMs: number, nowMs: number): void {
    this.#fade(nowMs);
    this.state.foreseenMs += foreseenMs;
  }

  /** Looks at what has come together. True: what is expected of its requests is wrong as it stands. */
  judge(nowMs: number): boolean {
    const { state } = this;
    this.#fade(nowMs);
    const deviationMs = Math.sqrt(state.squaresMs2);
    const isWrong =
      state.sumMs > SURPRISED_DEVIATIONS * deviationMs &&
      state.sumMs > SURPRISED_RATIO * state.foreseenMs;
    state.isSurprised =
      isWrong || (state.isSurprised && state.sumMs > CALM_DEVIATIONS * deviationMs);
    return isWrong;
  }

  checkInvariants(): void {
    const { sumMs, squaresMs2 } = this.state;
    assert(sumMs >= 0 && squaresMs2 >= 0, "no sum is negative");
  }

  /** A clock that runs backwards lets nothing fade. */
  #fade(nowMs: number): void {
    const { state } = this;
    const elapsedMs = Math.max(0, nowMs - (state.updatedAtMs ?? nowMs));
    const kept = 2 ** (-elapsedMs / HALF_LIFE_MS);
    state.updatedAtMs = Math.max(nowMs, state.updatedAtMs ?? nowMs);
    state.sumMs *= kept;
    state.squaresMs2 *= kept ** 2;
    state.foreseenMs *= kept;
  }
}
