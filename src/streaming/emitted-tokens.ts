import type { AnswerProgress, AnswerStart, Continuation } from "../protocol/continuation.ts";

/**
 * The tokens of an answer as its replica tells them, kept so that another one can go on behind them. Beyond
 * `tokensMax`, which no honest answer exceeds, they are given up, and the answer with its replica.
 */
export class EmittedTokens {
  readonly #tokensMax: number;
  readonly #tokenIds: number[];
  #start: AnswerStart | undefined;
  #isKept = true;

  /** `before`: what another replica had told of the same answer. */
  constructor(tokensMax: number, before?: Continuation) {
    this.#tokensMax = tokensMax;
    this.#tokenIds = [...(before?.token_ids ?? [])];
    this.#start = before;
  }

  get isKept(): boolean {
    return this.#isKept;
  }

  /** How many there are; 0 once they are given up. */
  get count(): number {
    return this.#tokenIds.length;
  }

  add({ token_ids: tokenIds, start }: AnswerProgress): void {
    this.#start ??= start;
    if (this.#tokenIds.length + tokenIds.length > this.#tokensMax) {
      this.#isKept = false;
      this.#tokenIds.length = 0;
    }
    if (this.#isKept) this.#tokenIds.push(...tokenIds);
  }

  /** What another replica needs to go on; `undefined`: none could. */
  get continuation(): Continuation | undefined {
    const start = this.#start;
    if (!this.#isKept || start === undefined || this.#tokenIds.length === 0) return undefined;
    return { ...start, token_ids: [...this.#tokenIds] };
  }
}
