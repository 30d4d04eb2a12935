import type { Sampling } from "./generate-request.ts";

/**
 * Which tokens a sequence has had, kept as they come: a step does not count the whole text again.
 *
 * It keeps only what the request's penalties ask for, which mostly is nothing.
 */
export class TokenHistory {
  readonly #isSeenKept: boolean;
  readonly #areCountsKept: boolean;
  readonly #seenTokens = new Set<number>();
  readonly #outputCounts = new Map<number, number>();
  /** Tokens on trial, and whether each was new. */
  readonly #onTrial: { readonly tokenId: number; readonly isNew: boolean }[] = [];

  constructor(
    sampling: Sampling,
    promptTokens: readonly number[],
    outputTokens: readonly number[] = [],
  ) {
    this.#isSeenKept = sampling.repetitionPenalty !== 1;
    this.#areCountsKept = sampling.frequencyPenalty !== 0 || sampling.presencePenalty !== 0;
    if (this.#isSeenKept) for (const token of promptTokens) this.#seenTokens.add(token);
    for (const token of outputTokens) this.add(token);
  }

  /** The distinct tokens of prompt and output; empty without a repetition penalty. */
  get seenTokens(): ReadonlySet<number> {
    return this.#seenTokens;
  }

  /** How often each token stands in the output; empty without a frequency or presence penalty. */
  get outputCounts(): ReadonlyMap<number, number> {
    return this.#outputCounts;
  }

  /** Takes the next output token. */
  add(tokenId: number): void {
    if (this.#isSeenKept) this.#seenTokens.add(tokenId);
    if (!this.#areCountsKept) return;
    this.#outputCounts.set(tokenId, (this.#outputCounts.get(tokenId) ?? 0) + 1);
  }

  /** Takes the next output token until `takeBack`. */
  addOnTrial(tokenId: number): void {
    this.#onTrial.push({ tokenId, isNew: !this.#seenTokens.has(tokenId) });
    this.add(tokenId);
  }

  /** Forgets all tokens on trial. */
  takeBack(): void {
    for (const { tokenId, isNew } of this.#onTrial.splice(0).toReversed()) {
      if (isNew) this.#seenTokens.delete(tokenId);
      const count = (this.#outputCounts.get(tokenId) ?? 0) - 1;
      if (count > 0) this.#outputCounts.set(tokenId, count);
      else this.#outputCounts.delete(tokenId);
    }
  }
}
