import type { Batch, BatchRow } from "../../../../gpu-backend/engine/batch.ts";

/** What a test says of a row; the rest is greedy, in blocks 0, 1, 2 … */
export interface RowOptions {
  readonly tokens: readonly number[];
  readonly sequenceId?: string;
  readonly startPosition?: number;
  readonly blockTable?: Int32Array;
  readonly output?: BatchRow["output"];
}

/** A batch of these rows. */
export function aBatch(rows: readonly RowOptions[]): Batch {
  return {
    rows: rows.map((row) => ({
      sequenceId: row.sequenceId ?? "sequence",
      tokens: Int32Array.from(row.tokens),
      startPosition: row.startPosition ?? 0,
      blockTable: row.blockTable ?? blocksFrom(0, 16),
      output: row.output ?? "last",
      outputIndex: 0,
    })),
    totalTokens: rows.reduce((sum, row) => sum + row.tokens.length, 0),
  };
}

/** The blocks `first`, `first + 1`, … */
export function blocksFrom(first: number, count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, index) => first + index);
}
