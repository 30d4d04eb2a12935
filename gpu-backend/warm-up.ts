import type { Batch, BatchRow } from "./engine/batch.ts";
import type { Executor } from "./engine/executor/executor.ts";
import type { StepSpeed } from "./engine/step-meter.ts";

/** The first runs compile and allocate; the last one of so many is like those to come. */
const RUNS = 3;

/**
 * Runs a full prefill and a lone decode before the first request, which then does not pay for
 * compiling, and returns how long they took. It writes into blocks that nobody holds yet.
 */
export async function warmUp(executor: Executor, nowMs: () => number): Promise<StepSpeed> {
  const { batchTokensMax, contextTokens, blockCount, blockTokens } = executor;
  const tokens = Math.min(batchTokensMax, contextTokens - 1, blockCount * blockTokens - 1);
  const prefillMs = await lastRunMs(executor, rowOf(executor, 0, tokens), nowMs);
  const stepMs = await lastRunMs(executor, rowOf(executor, tokens, 1), nowMs);
  return { stepMs, prefillTokensPerSecond: (tokens / prefillMs) * 1000 };
}

function rowOf(executor: Executor, startPosition: number, tokens: number): BatchRow {
  const blocks = Math.ceil((startPosition + tokens) / executor.blockTokens);
  return {
    sequenceId: "warm-up",
    tokens: Int32Array.from({ length: tokens }, (_, index) => index % executor.vocabularyTokens),
    startPosition,
    blockTable: Int32Array.from({ length: blocks }, (_, index) => index),
    output: "last",
    outputIndex: 0,
  };
}

async function lastRunMs(executor: Executor, row: BatchRow, nowMs: () => number): Promise<number> {
  const batch: Batch = { rows: [row], totalTokens: row.tokens.length };
  let durationMs = 0;
  for (let run = 0; run < RUNS; run++) {
    const startedAtMs = nowMs();
    await executor.run(batch);
    durationMs = nowMs() - startedAtMs;
  }
  return durationMs;
}
