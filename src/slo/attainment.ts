import { decodeLimitMs, DELIVERY_SLACK_MS, e2eLimitMs, ttftLimitMs } from "./deadlines.ts";
import type { SloTargets } from "./targets.ts";
import type { RequestTimeline } from "./timeline.ts";

/** What can be missed; a failed request misses all of it, and counts as `failed` alone. */
export const SLO_METRICS = ["ttft", "tpot", "tbt", "e2e", "failed"] as const;
export type SloMetric = (typeof SLO_METRICS)[number];

/** Whether one admitted request got what its tenant was promised. */
export interface Attainment {
  readonly kind: "good" | "missed" | "excluded";
  /** Empty unless the kind is `missed`. */
  readonly missed: readonly SloMetric[];
  /** True: it counts apart from the good ones, even where it met all targets. */
  readonly isDegraded: boolean;
}

/** Of a request that was admitted and got no answer. */
export const FAILED: Attainment = { kind: "missed", missed: ["failed"], isDegraded: false };

/** Of a stream's tokens so many must be in time. */
const IN_TIME_RATIO_MIN = 0.99;

/**
 * Judges a request against every target of its tenant: a stream by TTFT, TPOT, TBT and, where it is
 * promised, E2E; a whole answer by E2E alone. A request whose client left before any deadline had
 * passed is excluded; one that left later is judged on what it had by then. That goes by time and not
 * by the result, since counting only misses of those who leave would bias the share.
 */
export function judgeAttainment(timeline: RequestTimeline, targets: SloTargets): Attainment {
  const { ending, isDegraded } = timeline;
  if (ending === "failed") return { ...FAILED, isDegraded };
  const missed = timeline.isStreamed
    ? missedByStream(timeline, targets)
    : missedByWhole(timeline, targets);
  if (missed.length > 0) return { kind: "missed", missed, isDegraded };
  const isTooEarly =
    ending === "client-gone" && timeline.elapsedMs <= firstDeadlineMs(timeline, targets);
  return { kind: isTooEarly ? "excluded" : "good", missed, isDegraded };
}

function missedByStream(timeline: RequestTimeline, targets: SloTargets): SloMetric[] {
  const { promptTokens = 0, outputTokens, elapsedMs } = timeline;
  const missed: SloMetric[] = [];
  // Without a token the time until the end is the least that its first one took.
  if ((timeline.ttftMs ?? elapsedMs) > ttftLimitMs(targets, promptTokens)) missed.push("ttft");
  if ((timeline.decodeMs ?? 0) > decodeLimitMs(targets, outputTokens)) missed.push("tpot");
  if (targets.tbtMaxMs !== undefined) {
    const isLate = timeline.lateTokens > (1 - IN_TIME_RATIO_MIN) * outputTokens;
    if (timeline.longestGapMs > targets.tbtMaxMs || isLate) missed.push("tbt");
  }
  if (targets.e2e !== undefined && elapsedMs > targets.e2e.limitMs) missed.push("e2e");
  return missed;
}

function missedByWhole(timeline: RequestTimeline, targets: SloTargets): SloMetric[] {
  const { promptTokens = 0, outputTokens, elapsedMs } = timeline;
  return elapsedMs > e2eLimitMs(targets, promptTokens, outputTokens) ? ["e2e"] : [];
}

/** When, counted from the arrival, there is first something that could have been missed. */
function firstDeadlineMs(timeline: RequestTimeline, targets: SloTargets): number {
  const { promptTokens = 0, outputTokens, ttftMs, isStreamed } = timeline;
  if (!isStreamed) return e2eLimitMs(targets, promptTokens, outputTokens);
  const secondTokenLimitMs = Math.min(
    targets.tbtMaxMs ?? Number.POSITIVE_INFINITY,
    (targets.tpot?.limitMs ?? Number.POSITIVE_INFINITY) + DELIVERY_SLACK_MS,
  );
  return Math.min(
    ttftLimitMs(targets, promptTokens),
    targets.e2e?.limitMs ?? Number.POSITIVE_INFINITY,
    (ttftMs ?? Number.POSITIVE_INFINITY) + secondTokenLimitMs,
  );
}
