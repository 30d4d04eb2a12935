import type { Batch } from "./batch.ts";
import { logitRowsOf } from "./batch.ts";
import { InvalidLogitsError, sampleToken } from "./sampler.ts";

/** Stands where no token could be sampled, so that tokens and rows still match by order. */
const NO_TOKEN = -1;

/** A row whose logits were unusable; its request is to be failed before the commit. */
export interface RowFailure {
  readonly sequenceId: string;
  readonly message: string;
}

export interface SampledBatch {
  /** One token a row with `logits: "last"`, in order; -1 for a row that failed. */
  readonly tokens: Int32Array;
  readonly failures: readonly RowFailure[];
}

/**
 * Samples a token for every row that asks for one. `values` are the step's logits,
 * `[logitRowCount(batch), vocabularyTokens]`; rows that want all their logits are passed over.
 */
export function sampleBatch(
  batch: Batch,
  values: Float32Array,
  vocabularyTokens: number,
): SampledBatch {
  const tokens: number[] = [];
  const failures: RowFailure[] = [];
  let start = 0;
  for (const row of batch.rows) {
    if (row.logits === "last") {
      const logits = values.subarray(start, start + vocabularyTokens);
      try {
        tokens.push(sampleToken(logits, row.sampling, row.outputIndex));
      } catch (error) {
        if (!(error instanceof InvalidLogitsError)) throw error;
        tokens.push(NO_TOKEN);
        failures.push({ sequenceId: row.sequenceId, message: error.message });
      }
    }
    start += logitRowsOf(row) * vocabularyTokens;
  }
  return { tokens: Int32Array.from(tokens), failures };
}
