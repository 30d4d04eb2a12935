import type { AverageState } from "../base/average.ts";
import { DecayingAverage } from "../base/average.ts";

/** English text has about four bytes a token; a smaller prior errs towards more tokens. */
const BYTES_PER_TOKEN_PRIOR = 3.5;
/** What a chat template adds around a short conversation. */
const TEMPLATE_TOKENS = 16;
/** The prior counts as much as this many bytes of prompts that were really seen. */
const PRIOR_WEIGHT_BYTES = 2048;
const HALF_LIFE_MS = 600_000;

/** What a {@link TokenEstimate} remembers. */
export interface TokenEstimateState {
  readonly tokensPerByte: AverageState;
  readonly deviation: AverageState;
}

/**
 * Turns prompt bytes into tokens by what settled requests have taught: mean tokens per byte plus
 * the mean deviation from it, since a forecast that is too high only refuses early while one that
 * is too low breaks a promise. The gateway does not tokenise; this is its only idea of a prompt's length.
 */
export class TokenEstimate {
  readonly state: TokenEstimateState;
  readonly #tokensPerByte: DecayingAverage;
  readonly #deviation: DecayingAverage;

  constructor(
    state: TokenEstimateState = {
      tokensPerByte: { value: 1 / BYTES_PER_TOKEN_PRIOR, weight: PRIOR_WEIGHT_BYTES },
      deviation: { value: 0, weight: PRIOR_WEIGHT_BYTES },
    },
  ) {
    this.state = state;
    const options = { halfLifeMs: HALF_LIFE_MS };
    this.#tokensPerByte = new DecayingAverage(options, state.tokensPerByte);
    this.#deviation = new DecayingAverage(options, state.deviation);
  }

  /** Returns the tokens of a prompt of so many bytes, template included; at least one. */
  tokensOf(promptBytes: number): number {
    const tokensPerByte = (this.#tokensPerByte.value ?? 0) + (this.#deviation.value ?? 0);
    return TEMPLATE_TOKENS + Math.ceil(promptBytes * tokensPerByte);
  }

  /**
   * Returns what the prompt has at the least. The prior bounds it, because all tenants teach one
   * estimate: the odd prompts of one must not get another's ordinary ones refused for good.
   */
  tokensAtLeast(promptBytes: number): number {
    const tokensPerByte = Math.min(this.#tokensPerByte.value ?? 0, 1 / BYTES_PER_TOKEN_PRIOR);
    return TEMPLATE_TOKENS + Math.ceil(promptBytes * tokensPerByte);
  }

  /**
   * Learns from an engine's exact count. A sample weighs as much as it has bytes, since in a short
   * prompt the template hides the ratio.
   */
  learn(
    sample: { readonly promptBytes: number; readonly promptTokens: number },
    nowMs: number,
  ): void {
    const textTokens = sample.promptTokens - TEMPLATE_TOKENS;
    if (sample.promptBytes <= 0 || textTokens <= 0) return;
    const ratio = textTokens / sample.promptBytes;
    this.#tokensPerByte.add(ratio, nowMs, sample.promptBytes);
    // Measured from the new mean: else the error of the prior would count as spread of the prompts.
    const mean = this.#tokensPerByte.value ?? ratio;
    this.#deviation.add(Math.abs(ratio - mean), nowMs, sample.promptBytes);
  }
}
