import type { TokenChoice } from "./token-choice.ts";

/** Which log probabilities a row is asked for: those of the prompt tokens behind its own. */
export interface PromptScoring {
  /** Alternatives told with each. */
  readonly top: number;
  /** What follows the row's first token, its second, and so on; at the prompt's end one less. */
  readonly nextTokens: Int32Array;
}

/** Guesses of a sequence's output, computed with the token before them to see which of them hold. */
export interface Drafts {
  readonly tokenIds: Int32Array;
  /** What decides the token behind each of them, if all up to it hold. */
  readonly choices: readonly TokenChoice[];
}

/** One sequence's share of a step: a decode token or a prefill chunk, there is no other difference. */
export interface BatchRow {
  readonly sequenceId: string;
  /** The tokens to compute now, in order; drafts are the last of them. */
  readonly tokens: Int32Array;
  /** The position of the first of them: what came before is computed already. */
  readonly startPosition: number;
  /** Physical blocks of the sequence in order; covers `startPosition + tokens.length`. */
  readonly blockTable: Int32Array;
  /** What the executor gives back: logits of the last or of all tokens, or all last hidden states. */
  readonly output: "none" | "last" | "all" | "hidden";
  /** How many output tokens the sequence has. */
  readonly outputIndex: number;
  /** What decides the token behind the row's last known one; absent: the row yields no token. */
  readonly choice?: TokenChoice;
  /** Present with a `choice` and `output: "all"`. */
  readonly drafts?: Drafts;
  /** Present with `output: "all"`, and never with drafts. */
  readonly scoring?: PromptScoring;
}

/** What one step computes. Rows of any mix of sequences, packed without padding. */
export interface Batch {
  readonly rows: readonly BatchRow[];
  readonly totalTokens: number;
}

/** The number of logit rows that one row of a batch yields. */
export function logitRowsOf(row: BatchRow): number {
  if (row.output === "last") return 1;
  return row.output === "all" ? row.tokens.length : 0;
}

/** The number of logit rows that a batch yields. */
export function logitRowCount(batch: Batch): number {
  return batch.rows.reduce((count, row) => count + logitRowsOf(row), 0);
}

/** The number of hidden states that one row of a batch yields. */
export function hiddenRowsOf(row: BatchRow): number {
  return row.output === "hidden" ? row.tokens.length : 0;
}
