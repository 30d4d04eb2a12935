import type { Sequence } from "./sequence.ts";
import { predictPrefillMs, type StepForecast } from "../../src/step-cost/step-model.ts";

/** What a sequence that waits for its first step finds. */
export interface Prospect {
  /** Until its first token is due. */
  readonly leftMs: number;
  /** Nothing runs, so that it would begin at once. */
  readonly isIdle: boolean;
  /** Looks up how many of its tokens are cached, or about to be. */
  readonly reachableTokens: () => number;
}

/** Of sequences that look hopeless to an idle engine, one in so many is served all the same. */
const HOPELESS_PER_PROBE = 8;

/**
 * Tells whose first token would be late even if they had the engine to themselves from now on.
 *
 * To refuse them costs nothing, and to serve them would make others late as well. But were they all
 * refused while nothing else is served, a forecast that has come to see too black would never see
 * another step; so now and then one of them passes.
 */
export class HopelessCheck {
  readonly #forecast: StepForecast | undefined;
  readonly #batchTokensMax: number;
  #hopelessInIdleness = 0;

  /** Without a forecast nobody is hopeless. */
  constructor(options: {
    readonly forecast: StepForecast | undefined;
    readonly batchTokensMax: number;
  }) {
    this.#forecast = options.forecast;
    this.#batchTokensMax = options.batchTokensMax;
  }

  /** Whether the sequence is to be refused. */
  refuses(sequence: Sequence, prospect: Prospect): boolean {
    const { leftMs, isIdle, reachableTokens } = prospect;
    if (this.#prefillMs(sequence, sequence.uncachedTokens) <= leftMs) return false;
    // What it would hit was looked up when it began to wait; by now that may be more.
    const uncachedTokens = sequence.knownTokens - reachableTokens();
    if (this.#prefillMs(sequence, uncachedTokens) <= leftMs) return false;
    if (!isIdle) return true;
    this.#hopelessInIdleness += 1;
    return this.#hopelessInIdleness % HOPELESS_PER_PROBE !== 0;
  }

  #prefillMs({ knownTokens }: Sequence, uncachedTokens: number): number {
    if (this.#forecast === undefined) return 0;
    return predictPrefillMs(this.#forecast, {
      computedTokens: knownTokens - uncachedTokens,
      tokens: uncachedTokens,
      batchTokensMax: this.#batchTokensMax,
    });
  }
}
