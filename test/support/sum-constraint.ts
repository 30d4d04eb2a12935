import assert from "node:assert/strict";
import type { TokenConstraint } from "../../gpu-backend/engine/token-constraint.ts";

export interface SumConstraintOptions {
  readonly vocabularyTokens: number;
  readonly stopTokenIds: readonly number[];
  /** The text is complete at every so many tokens. */
  readonly completeEvery: number;
  /** From so many tokens on nothing is allowed but the end, or nothing at all. */
  readonly tokensMax?: number;
}

/**
 * A grammar that is all state: what may come next depends on the sum of all tokens accepted so far.
 * It fails a test that accepts what was not allowed, or goes on after the end.
 */
export class SumConstraint implements TokenConstraint {
  readonly #options: SumConstraintOptions;
  #sum = 0;
  #acceptedTokens = 0;
  #disposals = 0;
  readonly #onTrial: number[] = [];

  constructor(options: SumConstraintOptions) {
    this.#options = options;
  }

  get disposals(): number {
    return this.#disposals;
  }

  allowedTokens(): Int32Array {
    assert.equal(this.#disposals, 0, "A constraint that was disposed of is not asked");
    const { vocabularyTokens } = this.#options;
    const words = new Int32Array(Math.ceil(vocabularyTokens / 32));
    for (let token = 0; token < vocabularyTokens; token++) {
      if (this.#isAllowed(token))
        words[token >> 5] = (words[token >> 5] ?? 0) | (1 << (token & 31));
    }
    return words;
  }

  accept(tokenId: number): void {
    assert.equal(this.#disposals, 0, "A constraint that was disposed of accepts nothing");
    assert(this.#isAllowed(tokenId), `Token ${tokenId} was allowed`);
    assert.equal(this.#onTrial.length, 0, "Nothing is on trial when a token is accepted for good");
    this.#take(tokenId);
  }

  acceptOnTrial(tokenId: number): void {
    assert.equal(this.#disposals, 0, "A constraint that was disposed of accepts nothing");
    assert(this.#isAllowed(tokenId), `Token ${tokenId} was allowed`);
    this.#take(tokenId);
    this.#onTrial.push(tokenId);
  }

  takeBack(): void {
    for (const tokenId of this.#onTrial.splice(0)) {
      this.#sum -= tokenId;
      this.#acceptedTokens -= 1;
    }
  }

  dispose(): void {
    this.#disposals += 1;
    assert.equal(this.#disposals, 1, "A constraint is disposed of once");
  }

  #take(tokenId: number): void {
    this.#sum += tokenId;
    this.#acceptedTokens += 1;
  }

  #isAllowed(token: number): boolean {
    const { stopTokenIds, completeEvery, tokensMax } = this.#options;
    if (stopTokenIds.includes(token)) return (this.#acceptedTokens + 1) % completeEvery === 0;
    if (this.#acceptedTokens >= (tokensMax ?? Infinity)) return false;
    return (token + this.#sum) % 3 !== 0;
  }
}
