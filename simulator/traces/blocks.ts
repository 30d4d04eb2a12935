import type { PromptBlocks } from "../workloads/arrival.ts";
import { TraceError } from "./trace-error.ts";
import type { TraceRow } from "./trace-row.ts";

/** Reads `hash_ids`: one for each full block of the prompt, and perhaps one for its begun last block. */
export function promptBlocksOf(
  row: TraceRow,
  promptTokens: number,
  blockTokens: number,
): PromptBlocks {
  const ids = row.wholes("hash_ids");
  const blocksMin = Math.floor(promptTokens / blockTokens);
  const blocksMax = Math.ceil(promptTokens / blockTokens);
  if (ids.length < blocksMin || ids.length > blocksMax) {
    const expected = `${blocksMax} hash_ids for ${promptTokens} tokens`;
    throw new TraceError(row.lineNumber, expected, `${ids.length}`);
  }
  return { blockTokens, ids };
}
