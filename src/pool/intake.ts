import { hashText } from "../base/hash.ts";
import type { OutputLengths } from "../forecast/output-lengths.ts";
import { requestCostMs } from "../forecast/request-cost.ts";
import type { Capacity } from "./capacity.ts";
import type { Offer } from "./offer.ts";
import type { PoolRequest } from "./pool-request.ts";
import { limitsOf } from "./pool-request.ts";
import type { TokenEstimate } from "./token-estimate.ts";

/** What a pool has learned that an offer is read by. */
export interface IntakeParts {
  readonly tokenEstimate: TokenEstimate;
  readonly outputLengths: OutputLengths;
  readonly firstTokenMsMax: number;
}

/** Costs are whole multiples of this, a power of two: their sums are exact in any order. */
const COST_GRAIN_MS = 1 / 1024;

/** Reads an offer: how many tokens it will have, what it will cost, and by when what is due. */
export function toPoolRequest(
  offer: Offer,
  parts: IntakeParts,
  capacity: Capacity | undefined,
  nowMs: number,
): PoolRequest {
  const promptTokens = parts.tokenEstimate.tokensOf(offer.promptBytes);
  return {
    requestId: offer.requestId,
    offer,
    promptTokens,
    promptTokensMin: parts.tokenEstimate.tokensAtLeast(offer.promptBytes),
    routeHash: hashText(offer.prefixes[0]?.key ?? ""),
    offeredAtMs: nowMs,
    isInProfile: false,
    ladderTaken: 0,
    ...outlookOf(offer, promptTokens, offer.outputTokensMax, parts, capacity),
  };
}

/** The same request with its output cut short, or the very same where it is no longer anyway. */
export function clamped(
  request: PoolRequest,
  outputTokensMax: number,
  parts: IntakeParts,
  capacity: Capacity | undefined,
): PoolRequest {
  const { offer, promptTokens } = request;
  const limitNow = request.clampedOutputTokensMax ?? offer.outputTokensMax ?? Infinity;
  if (outputTokensMax >= limitNow) return request;
  return {
    ...request,
    ...outlookOf(offer, promptTokens, outputTokensMax, parts, capacity),
    clampedOutputTokensMax: outputTokensMax,
  };
}

/** GPU-ms that work costs on the reference replica, in whole grains; 0 while there is none. */
export function costMsOf(
  work: {
    readonly promptTokens: number;
    readonly cachedTokens: number;
    readonly outputTokens: number;
  },
  capacity: Capacity | undefined,
): number {
  if (capacity === undefined) return 0;
  const costMs = requestCostMs(work, capacity.reference);
  return Math.ceil(costMs / COST_GRAIN_MS) * COST_GRAIN_MS;
}

function outlookOf(
  offer: Offer,
  promptTokens: number,
  outputTokensMax: number | undefined,
  { outputLengths, firstTokenMsMax }: IntakeParts,
  capacity: Capacity | undefined,
) {
  const expected = outputLengths.expected(offer, outputTokensMax);
  const outputTokens = expected.meanTokens;
  const outputTokensHigh = expected.p90Tokens;
  const tokens = { promptTokens, outputTokens: outputTokensHigh };
  return {
    outputTokens,
    outputTokensHigh,
    limits: limitsOf(offer, tokens, firstTokenMsMax),
    costMs: costMsOf({ promptTokens, cachedTokens: 0, outputTokens }, capacity),
  };
}
