import type { SloMetric } from "./attainment.ts";
import { decodeLimitMs, e2eLimitMs, ttftLimitMs } from "./deadlines.ts";
import type { SloTargets } from "./targets.ts";
import type { RequestTimeline } from "./timeline.ts";

/** What a miss was made of: waiting, the prompt, a slow pace, a pause, or a replica that gave no answer. */
export const MISS_CAUSES = ["queue", "prefill", "decode", "stall", "replica"] as const;
export type MissCause = (typeof MISS_CAUSES)[number];

/**
 * Names the one cause of a request's miss, the earliest that there is: the wait where it would have been in
 * time without it, then the prompt, then one pause where it would have been without that, else its pace.
 */
export function missCause(
  timeline: RequestTimeline,
  missed: readonly SloMetric[],
  targets: SloTargets,
): MissCause {
  if (missed.includes("failed")) return "replica";
  const { promptTokens = 0, outputTokens, elapsedMs, queuedMs } = timeline;
  const ttftMs = timeline.ttftMs ?? elapsedMs;
  if (missed.includes("ttft")) {
    return ttftMs - queuedMs <= ttftLimitMs(targets, promptTokens) ? "queue" : "prefill";
  }
  if (missed.includes("tbt")) return "stall";
  if (missed.includes("tpot")) {
    const unbrokenMs = (timeline.decodeMs ?? 0) - timeline.longestGapMs;
    return unbrokenMs <= decodeLimitMs(targets, outputTokens) ? "stall" : "decode";
  }
  return elapsedMs - queuedMs <= e2eLimitMs(targets, promptTokens, outputTokens)
    ? "queue"
    : "decode";
}
