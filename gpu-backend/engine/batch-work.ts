import type { StepWork } from "../../src/step-cost/step-model.ts";
import { addWork, NO_WORK, workOfChunk } from "../../src/step-cost/step-model.ts";
import type { Batch } from "./batch.ts";

/** The work of a batch. */
export function workOf(batch: Batch): StepWork {
  return batch.rows
    .map((row) => workOfChunk(row.startPosition, row.tokens.length))
    .reduce(addWork, NO_WORK);
}
