import type { StepWork } from "../../src/step-cost/step-model.ts";
import { attendedPairsOf } from "../../src/step-cost/step-model.ts";
import type { Batch } from "./batch.ts";

/** The work of a batch. */
export function workOf(batch: Batch): StepWork {
  let attendedPairs = 0;
  let kvTokens = 0;
  for (const { startPosition, tokens } of batch.rows) {
    attendedPairs += attendedPairsOf(startPosition, tokens.length);
    kvTokens += startPosition + tokens.length;
  }
  return { tokens: batch.totalTokens, attendedPairs, sequences: batch.rows.length, kvTokens };
}
