import type { BatchRow, PromptScoring } from "./batch.ts";
import type { GenerateEvent, GenerateRequest } from "./generate-request.ts";
import { PooledMean } from "./pooled-mean.ts";
import { PromptLogprobs } from "./prompt-logprobs.ts";
import type { ComputedRow } from "./row-result.ts";

/**
 * Tokens of a prompt that one step scores at most: each costs a row of logits, as wide as the vocabulary,
 * and the time of a whole softmax.
 */
const SCORED_TOKENS_MAX = 64;

/** What a request wants to know of its prompt, gathered step by step and told once. */
export class PromptFindings {
  readonly #id: string;
  readonly #promptTokens: number;
  readonly #logprobs: PromptLogprobs | undefined;
  readonly #pooledMean: PooledMean | undefined;
  #isTold = false;

  constructor({ id, promptTokens, promptLogprobsTop, pooling }: GenerateRequest) {
    this.#id = id;
    this.#promptTokens = promptTokens.length;
    if (promptLogprobsTop !== undefined) {
      this.#logprobs = new PromptLogprobs(promptTokens, promptLogprobsTop);
    }
    if (pooling !== undefined) this.#pooledMean = new PooledMean();
  }

  /** Whether each token of the prompt has to be computed, cached or not. */
  get needAllTokens(): boolean {
    return this.#logprobs !== undefined || this.#pooledMean !== undefined;
  }

  /** How many tokens one step can compute. */
  get stepTokensMax(): number {
    return this.#logprobs === undefined ? Infinity : SCORED_TOKENS_MAX;
  }

  /** What a row that computes these positions is asked for. */
  askedOf(
    startPosition: number,
    endPosition: number,
  ): { readonly scoring: PromptScoring | undefined; readonly isPooled: boolean } {
    return {
      scoring: this.#logprobs?.scoringOf(startPosition, endPosition),
      isPooled: endPosition > (this.#pooledMean?.pooledTokens ?? Infinity),
    };
  }

  /** Takes what a row found. */
  add(row: BatchRow, { promptLogprobs, hidden }: ComputedRow): void {
    if (promptLogprobs !== undefined) this.#logprobs?.add(row.startPosition, promptLogprobs);
    if (hidden !== undefined) this.#pooledMean?.add(row.startPosition, row.tokens.length, hidden);
  }

  /** What there is to tell, once, when all of the prompt is computed. */
  eventsAt(computedTokens: number): GenerateEvent[] {
    if (this.#isTold || computedTokens < this.#promptTokens) return [];
    this.#isTold = true;
    const id = this.#id;
    const logprobs = this.#logprobs?.complete();
    const vector = this.#pooledMean?.toUnitVector();
    return [
      ...(logprobs !== undefined ? [{ kind: "prompt-logprobs", id, logprobs } as const] : []),
      ...(vector !== undefined ? [{ kind: "embedded", id, vector } as const] : []),
    ];
  }
}
