import { assert } from "../../src/base/assert.ts";
import type { PromptScoring } from "./batch.ts";
import type { TokenLogprob } from "./generate-request.ts";

/**
 * The log probabilities of a prompt's tokens, gathered chunk by chunk.
 *
 * What a preempted prefill has gathered stays: the tokens are the same when they are computed again.
 */
export class PromptLogprobs {
  readonly #promptTokens: readonly number[];
  readonly #top: number;
  /** Nothing comes before the first token, so it has none. */
  readonly #logprobs: (TokenLogprob | undefined)[] = [undefined];

  constructor(promptTokens: readonly number[], top: number) {
    this.#promptTokens = promptTokens;
    this.#top = top;
  }

  /** What a row that computes these positions is asked for; `undefined`: nothing that is missing. */
  scoringOf(startPosition: number, endPosition: number): PromptScoring | undefined {
    const end = Math.min(endPosition + 1, this.#promptTokens.length);
    if (end <= this.#logprobs.length) return undefined;
    return {
      top: this.#top,
      nextTokens: Int32Array.from(this.#promptTokens.slice(startPosition + 1, end)),
    };
  }

  /** Takes what a row that began at this position found. */
  add(startPosition: number, logprobs: readonly TokenLogprob[]): void {
    const known = this.#logprobs.length - (startPosition + 1);
    assert(known >= 0, "A prompt is scored in the order of its tokens");
    this.#logprobs.push(...logprobs.slice(known));
  }

  /** One entry a prompt token. */
  complete(): readonly (TokenLogprob | undefined)[] {
    assert(this.#logprobs.length === this.#promptTokens.length, "A computed prompt is scored");
    return this.#logprobs;
  }
}
