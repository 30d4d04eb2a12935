import type { KvCache } from "./kv-cache/kv-cache.ts";
import type { Scheduler } from "./scheduler.ts";

/** How much an engine has on its hands, for the report to its pool. */
export interface EngineLoad {
  readonly queuedRequests: number;
  readonly runningRequests: number;
  /** Blocks that running requests hold; cached but free blocks are not counted. */
  readonly usedBlocks: number;
  readonly blockCount: number;
  readonly blockTokens: number;
  /**
   * Tokens to be prefilled, of waiting and running requests. What a waiting one will find cached is
   * an estimate, made when it began to wait; the output of a preempted one counts as prompt.
   */
  readonly queuedUncachedTokens: number;
  /** The tightest TBT target of all requests here; `undefined` if none has one. */
  readonly tightestTbtMs: number | undefined;
}

/** Sums up what waits and runs. Linear in the number of requests. */
export function measureLoad(scheduler: Scheduler, kvCache: KvCache): EngineLoad {
  const sequences = [...scheduler.waiting, ...scheduler.running];
  const tbtTargetsMs = sequences.flatMap(({ request }) => request.tbtTargetMs ?? []);
  return {
    queuedRequests: scheduler.waiting.length,
    runningRequests: scheduler.running.length,
    usedBlocks: kvCache.usedBlocks,
    blockCount: kvCache.blockCount,
    blockTokens: kvCache.blockTokens,
    queuedUncachedTokens: sequences.reduce((sum, { uncachedTokens }) => sum + uncachedTokens, 0),
    tightestTbtMs: tbtTargetsMs.length === 0 ? undefined : Math.min(...tbtTargetsMs),
  };
}
