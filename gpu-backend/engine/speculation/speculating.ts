/** Where guesses of outputs come from: what was said before, a draft model, either, or nowhere. */
export const SPECULATION_MODES = ["off", "lookup", "draft", "auto"] as const;

/** How an operator wants outputs to be guessed. */
export interface Speculating {
  readonly mode: (typeof SPECULATION_MODES)[number];
  /** Guesses of one request that one step verifies at most. */
  readonly draftTokensMax: number;
  /** Absent: there is no draft model. */
  readonly draftModelDirectory: string | undefined;
}

/** What is started with that nobody asked for anything else. */
export const NO_SPECULATING: Speculating = {
  mode: "off",
  draftTokensMax: 8,
  draftModelDirectory: undefined,
};
