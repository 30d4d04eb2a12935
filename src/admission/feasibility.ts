/** What keeps a request off a replica; `residents` means the targets of those that run there. */
type InfeasibleReason = "ttft" | "tpot" | "tbt" | "e2e" | "kv" | "residents";

/** One request on one replica. A limit that was not promised is `Infinity`. */
export interface FeasibilityQuestion {
  /** Upper bounds of the forecast, from now on. */
  readonly bounds: {
    readonly ttftMs: number;
    readonly tpotMs: number;
    /** The TPOT of those who decode there once this request is among them. */
    readonly residentsTpotMs: number;
    /** The longest gap that prefill opens, this request's in others' answers and others' in its own. */
    readonly longestStepMs: number;
    readonly e2eMs: number;
  };
  /** Tokens of KV at the peak of all that is there, this request included. */
  readonly kvPeakTokens: number;
  readonly limits: {
    readonly ttftLimitMs: number;
    readonly tpotLimitMs: number;
    readonly tbtMaxMs: number;
    readonly e2eLimitMs: number;
  };
  /** What of TTFT and E2E is spent already. */
  readonly elapsedMs: number;
  readonly load: {
    readonly tightestTpotMs: number;
    readonly tightestTbtMs: number;
    readonly kvTokensMax: number;
  };
  readonly isInProfile: boolean;
}

/** Whether a replica can keep everybody's promises with this request as well. */
export interface Feasibility {
  readonly isFeasible: boolean;
  /**
   * What is left of the limit that is closest, as a share of that limit: at most 1, negative where
   * infeasible. The one currency in which replicas are compared.
   */
  readonly headroomRatio: number;
  /**
   * The same as if the request had just arrived: what is left on the replica, however long it has waited.
   * From this is held back for those in profile; what it has waited took room from nobody.
   */
  readonly roomRatio: number;
  /** What is exceeded by most; absent where feasible. */
  readonly reason: InfeasibleReason | undefined;
}

/** Beyond this engines preempt, and what they preempt misses its targets. */
const KV_RATIO_MAX = 0.95;
/** The rest is for those who are guaranteed something. */
const EXCESS_KV_RATIO_MAX = 0.85;

/** How much of a replica's KV the peak of all that is there may take. */
export function usableKvRatio(isInProfile: boolean): number {
  return isInProfile ? KV_RATIO_MAX : EXCESS_KV_RATIO_MAX;
}

/**
 * Asks whether a request can run on a replica so that its own TTFT, TPOT, TBT and E2E hold and so do
 * the tightest TPOT and TBT of those that run there.
 *
 * KV decides whether, but not where: below its ceiling it costs no time that the forecast has not
 * counted, so a replica with more of it free is no better.
 */
export function checkFeasible(question: FeasibilityQuestion): Feasibility {
  const { bounds, limits, elapsedMs, load } = question;
  let least = 1;
  let reason: InfeasibleReason | undefined;

  let headroom = headroomRatioOf(bounds.tpotMs, limits.tpotLimitMs);
  if (headroom < least) [least, reason] = [headroom, "tpot"];
  headroom = headroomRatioOf(bounds.longestStepMs, limits.tbtMaxMs);
  if (headroom < least) [least, reason] = [headroom, "tbt"];
  headroom = Math.min(
    headroomRatioOf(bounds.residentsTpotMs, load.tightestTpotMs),
    headroomRatioOf(bounds.longestStepMs, load.tightestTbtMs),
  );
  if (headroom < least) [least, reason] = [headroom, "residents"];
  const kvHeadroom = kvHeadroomRatio(question);
  if (kvHeadroom < 0 && kvHeadroom < least) [least, reason] = [kvHeadroom, "kv"];
  const roomRatio = Math.min(
    least,
    headroomRatioOf(bounds.ttftMs, limits.ttftLimitMs),
    headroomRatioOf(bounds.e2eMs, limits.e2eLimitMs),
  );
  headroom = headroomRatioOf(elapsedMs + bounds.ttftMs, limits.ttftLimitMs);
  if (headroom < least) [least, reason] = [headroom, "ttft"];
  headroom = headroomRatioOf(elapsedMs + bounds.e2eMs, limits.e2eLimitMs);
  if (headroom < least) [least, reason] = [headroom, "e2e"];

  const isFeasible = least >= 0;
  return { isFeasible, headroomRatio: least, roomRatio, reason: isFeasible ? undefined : reason };
}

function headroomRatioOf(boundMs: number, limitMs: number): number {
  return limitMs === Infinity ? 1 : 1 - boundMs / limitMs;
}

function kvHeadroomRatio({ kvPeakTokens, load, isInProfile }: FeasibilityQuestion): number {
  return usableKvRatio(isInProfile) - kvPeakTokens / load.kvTokensMax;
}
