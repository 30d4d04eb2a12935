/**
 * What a sequence's output may go on with. It belongs to one sequence; its state moves only when a
 * step is committed, so a failed step, a preemption or a cancel need no undo. Whoever verifies guesses
 * moves it on trial, and takes that back in any case.
 */
export interface TokenConstraint {
  /**
   * One bit a token, bit `id & 31` of word `id >> 5`: set where the token may come next. Stop tokens
   * are set exactly when the text is complete. Valid until the next change.
   */
  allowedTokens(): Int32Array;
  /** Takes a token that was allowed, in the order of the output. Nothing is on trial then. */
  accept(tokenId: number): void;
  /** Takes a token that was allowed and ends nothing, until `takeBack`; masks are then those behind it. */
  acceptOnTrial(tokenId: number): void;
  /** Is again where it was before the first token on trial, if there is any. */
  takeBack(): void;
  /** Gives back what the constraint holds outside the JavaScript heap. Once. */
  dispose(): void;
}
