import type { TokenConstraint } from "../token-constraint.ts";

/** A grammar in another thread, as one sequence asks it. */
export interface GrammarLink {
  /** The mask behind all that was accepted and not taken back; waits for it. Overwritten by the next one. */
  readonly mask: () => Int32Array;
  readonly accept: (tokenId: number) => void;
  /** Goes back by so many tokens; a token is accepted next. */
  readonly goBack: (tokens: number) => void;
  readonly close: () => void;
}

/**
 * A constraint whose grammar may be ahead of it: what was accepted on trial is mostly what is accepted for
 * good right after, so the grammar goes back only when something else is, and no mask is found twice.
 */
export class FollowedConstraint implements TokenConstraint {
  readonly #link: GrammarLink;
  /** What the grammar is ahead, or would be without what is on trial, each with the mask before it. */
  readonly #ahead: { readonly tokenId: number; readonly mask: Int32Array }[] = [];
  /** So many of those are on trial. */
  #onTrial = 0;
  #isDisposed = false;

  constructor(link: GrammarLink) {
    this.#link = link;
  }

  allowedTokens(): Int32Array {
    return this.#ahead[this.#onTrial]?.mask ?? this.#link.mask();
  }

  accept(tokenId: number): void {
    if (this.#isAheadBy(tokenId)) this.#ahead.shift();
    else this.#link.accept(tokenId);
  }

  acceptOnTrial(tokenId: number): void {
    // A grammar that goes back has no mask to tell until a token is accepted.
    const mask = this.allowedTokens();
    if (!this.#isAheadBy(tokenId)) {
      this.#ahead.push({ tokenId, mask: mask.slice() });
      this.#link.accept(tokenId);
    }
    this.#onTrial += 1;
  }

  takeBack(): void {
    this.#onTrial = 0;
  }

  dispose(): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    this.#link.close();
  }

  /** Whether the grammar has this token next already; if it has another one, it goes back. */
  #isAheadBy(tokenId: number): boolean {
    const next = this.#ahead[this.#onTrial];
    if (next === undefined || next.tokenId === tokenId) return next !== undefined;
    this.#link.goBack(this.#ahead.length - this.#onTrial);
    this.#ahead.splice(this.#onTrial);
    return false;
  }
}
