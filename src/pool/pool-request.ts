import type { RequestId } from "../protocol/ids.ts";
import { e2eLimitMs, ttftLimitMs } from "../slo/deadlines.ts";
import type { Offer } from "./offer.ts";

/** Bounds of one request's latencies; `Infinity` where nothing is promised. */
export interface RequestLimits {
  readonly ttftLimitMs: number;
  readonly tpotLimitMs: number;
  readonly tbtMaxMs: number;
  readonly e2eLimitMs: number;
}

/** An offer as the pool deals with it: what it believes of it, and how far it has come. */
export interface PoolRequest {
  readonly requestId: RequestId;
  readonly offer: Offer;
  /** What is to be prefilled: the prompt as it is expected, rather too much than too little, and all that is emitted. */
  readonly promptTokens: number;
  /** What it has at the least, for verdicts that no other moment would change. */
  readonly promptTokensMin: number;
  /** Of the output, what another replica has made before; 0 unless it goes on. */
  readonly emittedTokens: number;
  /** What the output is expected to have beyond that, and what one in ten has more than. */
  readonly outputTokens: number;
  readonly outputTokensHigh: number;
  readonly limits: RequestLimits;
  /** Of what the prompt begins with: requests of one route prefer the same replicas. */
  readonly routeHash: number;
  readonly offeredAtMs: number;
  /** Predicted GPU-ms of the reference replica. */
  readonly costMs: number;
  /** True: its prompt is to be computed where it is answered. */
  readonly staysWhole?: true;
  /** True once its cost was taken from what its tenant is guaranteed. */
  isInProfile: boolean;
  /** Steps of the tenant's overload ladder that are behind it. */
  ladderTaken: number;
  /** The ladder's limit on the output, once it has come to that. */
  clampedOutputTokensMax?: number;
}

/** What of the targets' time is spent at an instant. */
export function elapsedMsOf({ offer, offeredAtMs }: PoolRequest, nowMs: number): number {
  return offer.elapsedMs + Math.max(0, nowMs - offeredAtMs);
}

/** The time that a request has: until its first token, or until its end if that is nearer. */
export function targetMsOf({ limits }: PoolRequest): number {
  return Math.min(limits.ttftLimitMs, limits.e2eLimitMs);
}

/**
 * Which bounds apply to a request: a stream's first token and pace, or a whole answer's end, which
 * without a target of its own is what TTFT and TPOT together imply. `firstTokenMsMax` bounds what
 * has no target. An answer that goes on has its gap to keep, and is worth its pace however late its end.
 */
export function limitsOf(
  { targets, isStreamed, continued }: Offer,
  tokens: { readonly promptTokens: number; readonly outputTokens: number },
  firstTokenMsMax: number,
): RequestLimits {
  const { promptTokens, outputTokens } = tokens;
  const tpotLimitMs = targets.tpot?.limitMs ?? Infinity;
  if (!isStreamed) {
    return {
      ttftLimitMs: firstTokenMsMax,
      // The pace stays bound: the answer may turn out longer than was expected.
      tpotLimitMs: targets.e2e === undefined ? tpotLimitMs : Infinity,
      tbtMaxMs: Infinity,
      e2eLimitMs: e2eLimitMs(targets, promptTokens, outputTokens),
    };
  }
  if (continued !== undefined) {
    const tbtMaxMs = targets.tbtMaxMs ?? Infinity;
    return { ttftLimitMs: continued.resumeByMs, tpotLimitMs, tbtMaxMs, e2eLimitMs: Infinity };
  }
  return {
    ttftLimitMs: Math.min(ttftLimitMs(targets, promptTokens), firstTokenMsMax),
    tpotLimitMs,
    tbtMaxMs: targets.tbtMaxMs ?? Infinity,
    e2eLimitMs: targets.e2e?.limitMs ?? Infinity,
  };
}
