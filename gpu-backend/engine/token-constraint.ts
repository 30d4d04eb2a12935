/**
 * What a sequence's output may go on with. It belongs to one sequence; its state moves only when a
 * step is committed, so a failed step, a preemption or a cancel need no undo.
 */
export interface TokenConstraint {
  /**
   * One bit a token, bit `id & 31` of word `id >> 5`: set where the token may come next. Stop tokens
   * are set exactly when the text is complete. Valid until the next `accept`.
   */
  allowedTokens(): Int32Array;
  /** Takes a token that was allowed, in the order of the output. */
  accept(tokenId: number): void;
  /** Gives back what the constraint holds outside the JavaScript heap. Once. */
  dispose(): void;
}
