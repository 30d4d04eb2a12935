import type { ReplicaLoad } from "../replicas/replica-load.ts";
import { attendedPairsOf } from "../step-cost/step-model.ts";
import type { Lease } from "./lease-book.ts";

/** What of an empty replica says that it is empty. */
export const NOBODY_THERE = { sequences: 0 } as const;
/** What of a load says that nobody there was promised anything. */
export const UNGUARDED = { tightestTpotMs: Infinity, tightestTbtMs: Infinity } as const;

/** A replica's load as it would be had it not been sent a request, which has no token there yet. */
export function loadWithout(
  load: ReplicaLoad,
  { promptTokens, cachedTokens, outputTokens }: Lease,
): ReplicaLoad {
  const uncachedTokens = promptTokens - cachedTokens;
  const pairs = attendedPairsOf(cachedTokens, uncachedTokens);
  return {
    ...load,
    prefillTokens: Math.max(0, load.prefillTokens - uncachedTokens),
    prefillPairs: Math.max(0, load.prefillPairs - pairs),
    sequences: Math.max(0, load.sequences - 1),
    kvTokens: Math.max(0, load.kvTokens - promptTokens),
    kvTokensExpected: Math.max(0, load.kvTokensExpected - promptTokens - outputTokens),
  };
}

/** A replica's load as it would be with nobody there. */
export function idleLoad(load: ReplicaLoad): ReplicaLoad {
  return { ...load, ...NOBODY };
}

const NOBODY = {
  prefillTokens: 0,
  prefillPairs: 0,
  sequences: 0,
  kvTokens: 0,
  kvTokensExpected: 0,
  prefillTimeRatio: 0,
  tightestTpotMs: Infinity,
  tightestTbtMs: Infinity,
} as const;
