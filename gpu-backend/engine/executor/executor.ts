import type { Batch } from "../batch.ts";
import type { StepOutput } from "../step-output.ts";

/** The blocks of a KV pool as bytes, `blockBytes` each. */
export interface BlockBytes {
  readonly blockBytes: number;
  readBlock(block: number, target: Uint8Array): void;
  writeBlock(block: number, source: Uint8Array): void;
}

/**
 * Runs steps of one model over its own paged KV pool.
 *
 * A row's result depends on nothing but its own tokens and blocks, bit for bit: that makes batched
 * equal to alone, chunked to whole, and a prefix hit to a miss.
 */
export interface Executor {
  readonly vocabularyTokens: number;
  readonly contextTokens: number;
  readonly blockTokens: number;
  readonly blockCount: number;
  /** The largest `totalTokens` of a batch. */
  readonly batchTokensMax: number;
  /** Bytes of weights and of the KV pool, for the log and the report. */
  readonly memory: { readonly weightBytes: number; readonly kvPoolBytes: number };
  /** Rejects when the batch breaks the limits or the runtime fails; the KV of its rows is then void. */
  run(batch: Batch): Promise<StepOutput>;
  /** Its blocks as bytes, which may be copied between two steps. */
  readonly kvPool: BlockBytes;
  close(): Promise<void>;
}
