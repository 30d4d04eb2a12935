import type { Sampling } from "./generate-request.ts";

/** One sequence's share of a step: a decode token or a prefill chunk, there is no other difference. */
export interface BatchRow {
  readonly sequenceId: string;
  /** The tokens to compute now, in order. */
  readonly tokens: Int32Array;
  /** The position of the first of them: what came before is computed already. */
  readonly startPosition: number;
  /** Physical blocks of the sequence in order; covers `startPosition + tokens.length`. */
  readonly blockTable: Int32Array;
  /** Which of the tokens need logits: only the last one when the chunk ends the known tokens. */
  readonly logits: "none" | "last" | "all";
  readonly sampling: Sampling;
  /**
   * How many output tokens the sequence has. With the seed it keys the draw, so that neither a
   * preemption nor a prefix hit can shift it.
   */
  readonly outputIndex: number;
}

/** What one step computes. Rows of any mix of sequences, packed without padding. */
export interface Batch {
  readonly rows: readonly BatchRow[];
  readonly totalTokens: number;
}

/** The number of logit rows that one row of a batch yields. */
export function logitRowsOf(row: BatchRow): number {
  if (row.logits === "none") return 0;
  return row.logits === "last" ? 1 : row.tokens.length;
}

/** The number of logit rows that a batch yields. */
export function logitRowCount(batch: Batch): number {
  return batch.rows.reduce((count, row) => count + logitRowsOf(row), 0);
}
