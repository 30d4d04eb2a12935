import type { Sequence } from "./sequence.ts";
import { KEPT_TARGET_RATIO, PREFILL_TOKENS_MIN } from "../../src/step-cost/kept-gaps.ts";
import {
  addWork,
  NO_WORK,
  type StepForecast,
  type StepWork,
  workOfChunk,
  workOfGuesses,
} from "../../src/step-cost/step-model.ts";

export interface StepBudgetOptions {
  readonly tokensMax: number;
  /** The sequences that run when the step is planned. */
  readonly running: readonly Sequence[];
  /** Given: no more prefill than keeps the TBT targets of those that decode. */
  readonly forecast: StepForecast | undefined;
  /** Of the time that the step may take. */
  readonly spentMs?: number;
}

/**
 * What one step may still compute: so many tokens, in so much time.
 *
 * Each decode has its one token set aside from the beginning, so that no prefill, however urgent, opens a
 * gap in an answer, and prefills share what is left. With a forecast the step is kept as short as
 * the tightest TBT target wants it. A target that a step of the decodes alone would miss
 * is not looked at: it is lost, and to hold prefill back would only lose others.
 */
export class StepBudget {
  readonly #forecast: StepForecast | undefined;
  readonly #stepMsMax: number;
  /** Those whose token is set aside. */
  readonly #decodes: Set<Sequence>;
  #tokens: number;
  #prefillTokens = 0;
  /** Of prefills and guesses: all but the decodes' own tokens. */
  #extraWork = NO_WORK;

  constructor({ tokensMax, running, forecast, spentMs = 0 }: StepBudgetOptions) {
    this.#forecast = forecast;
    this.#decodes = new Set(running.filter((sequence) => sequence.uncomputedTokens === 1));
    this.#tokens = tokensMax - this.#decodes.size;
    const decodesMs = spentMs + (forecast?.predictMs(this.#work()) ?? 0);
    const limitsMs = [...this.#decodes]
      .filter((sequence) => sequence.outputTokens > 0)
      .map(({ request }) => KEPT_TARGET_RATIO * (request.tbtTargetMs ?? Infinity))
      .filter((limitMs) => limitMs >= decodesMs);
    this.#stepMsMax = Math.min(Infinity, ...limitsMs) - spentMs;
  }

  /** How many tokens of this sequence the step may compute; 0 when there is no room left. */
  tokensFor(sequence: Sequence): number {
    if (this.#decodes.has(sequence)) return 1;
    const tokensMax = Math.min(this.#tokens, sequence.uncomputedTokens);
    const forecast = this.#forecast;
    if (forecast === undefined || this.#stepMsMax === Infinity) return tokensMax;
    const tokensMin = Math.min(tokensMax, Math.max(0, PREFILL_TOKENS_MIN - this.#prefillTokens));
    const work = this.#work();
    return largestInteger(tokensMin, tokensMax, (tokens) => {
      const chunk = workOfChunk(sequence.computedTokens, tokens);
      return forecast.predictMs(addWork(work, chunk)) <= this.#stepMsMax;
    });
  }

  /** Takes what a sequence computes, at most what `tokensFor` allowed. */
  take(sequence: Sequence, tokens: number): void {
    if (this.#decodes.has(sequence)) return;
    this.#tokens -= tokens;
    this.#prefillTokens += tokens;
    this.#extraWork = addWork(this.#extraWork, workOfChunk(sequence.computedTokens, tokens));
  }

  /** How many guesses of a sequence that decodes the step may verify besides; at most `wantedTokens`. */
  draftTokensFor(sequence: Sequence, wantedTokens: number): number {
    const tokensMax = Math.min(this.#tokens, wantedTokens);
    const forecast = this.#forecast;
    if (forecast === undefined || this.#stepMsMax === Infinity) return tokensMax;
    const work = this.#work();
    return largestInteger(0, tokensMax, (tokens) => {
      const drafts = workOfGuesses(sequence.computedTokens + 1, tokens);
      return forecast.predictMs(addWork(work, drafts)) <= this.#stepMsMax;
    });
  }

  /** Takes guesses, at most what `draftTokensFor` allowed. */
  takeDrafts(sequence: Sequence, tokens: number): void {
    this.#tokens -= tokens;
    this.#extraWork = addWork(this.#extraWork, workOfGuesses(sequence.computedTokens + 1, tokens));
  }

  /** Gives back what was set aside for a sequence that does not run any more. */
  release(sequence: Sequence): void {
    if (this.#decodes.delete(sequence)) this.#tokens += 1;
  }

  #work(): StepWork {
    return [...this.#decodes]
      .map((sequence) => workOfChunk(sequence.computedTokens, 1))
      .reduce(addWork, this.#extraWork);
  }
}

/** The largest integer of a range that fits, where all below one that fits do so too; at least `min`. */
function largestInteger(min: number, max: number, fits: (value: number) => boolean): number {
  let low = min;
  let high = max;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (fits(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}
