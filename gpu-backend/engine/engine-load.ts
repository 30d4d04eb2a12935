import type { KvCache } from "./kv-cache/kv-cache.ts";
import type { Scheduler } from "./scheduler.ts";
import { attendedPairsOf } from "../../src/step-cost/step-model.ts";

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
  /** Pairs of such a token and one it attends to, itself included. */
  readonly queuedAttendedPairs: number;
  /** Tokens with KV of running requests; one that several share counts for each. */
  readonly runningKvTokens: number;
  /** Tokens that will have KV once those that wait now run. */
  readonly waitingKvTokens: number;
  /** The tightest TBT target of all requests here; `undefined` if none has one. */
  readonly tightestTbtMs: number | undefined;
}

/** Sums up what waits and runs. Linear in the number of requests. */
export function measureLoad(scheduler: Scheduler, kvCache: KvCache): EngineLoad {
  const { waiting, running } = scheduler;
  let queuedUncachedTokens = 0;
  let queuedAttendedPairs = 0;
  let runningKvTokens = 0;
  let waitingKvTokens = 0;
  let tightestTbtMs = Infinity;
  for (const sequences of [waiting, running]) {
    for (const { uncachedTokens, knownTokens, request } of sequences) {
      tightestTbtMs = Math.min(tightestTbtMs, request.tbtTargetMs ?? Infinity);
      if (uncachedTokens === 0) continue;
      queuedUncachedTokens += uncachedTokens;
      // Nothing is generated before the last known token is computed: these are the last of them.
      queuedAttendedPairs += attendedPairsOf(knownTokens - uncachedTokens, uncachedTokens);
    }
  }
  for (const { knownTokens } of waiting) waitingKvTokens += knownTokens;
  for (const { computedTokens } of running) runningKvTokens += computedTokens;
  return {
    queuedRequests: waiting.length,
    runningRequests: running.length,
    usedBlocks: kvCache.usedBlocks,
    blockCount: kvCache.blockCount,
    blockTokens: kvCache.blockTokens,
    queuedUncachedTokens,
    queuedAttendedPairs,
    runningKvTokens,
    waitingKvTokens,
    tightestTbtMs: tightestTbtMs === Infinity ? undefined : tightestTbtMs,
  };
}
