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
  const { continued, promptBytes } = offer;
  const emittedTokens = continued?.emittedTokens ?? 0;
  const knownTokens = continued && continued.promptTokens + emittedTokens;
  const promptTokens = knownTokens ?? parts.tokenEstimate.tokensOf(promptBytes);
  return {
    requestId: offer.requestId,
    offer,
    promptTokens,
    promptTokensMin: knownTokens ?? parts.tokenEstimate.tokensAtLeast(promptBytes),
    emittedTokens,
    routeHash: hashText(offer.route ?? ""),
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

/**
 * What of a request's work its tenant is charged for. That an answer which goes on is prefilled once more is
 * the pool's: its parts cost together what it had cost in one.
 */
export function chargedWork(
  { promptTokens, emittedTokens }: Pick<PoolRequest, "promptTokens" | "emittedTokens">,
  outputTokens: number,
) {
  return { promptTokens, cachedTokens: emittedTokens > 0 ? promptTokens : 0, outputTokens };
}

function outlookOf(
  offer: Offer,
  promptTokens: number,
  outputTokensMax: number | undefined,
  { outputLengths, firstTokenMsMax }: IntakeParts,
  capacity: Capacity | undefined,
) {
  const emittedTokens = offer.continued?.emittedTokens ?? 0;
  const expected = outputLengths.expected(offer, outputTokensMax);
  const outputTokens =
    emittedTokens > 0
      ? outputLengths.residualTokens(offer, emittedTokens, outputTokensMax)
      : expected.meanTokens;
  const outputTokensHigh = Math.max(outputTokens, expected.p90Tokens - emittedTokens);
  const tokens = { promptTokens, outputTokens: outputTokensHigh };
  return {
    outputTokens,
    outputTokensHigh,
    limits: limitsOf(offer, tokens, firstTokenMsMax),
    costMs: costMsOf(chargedWork({ promptTokens, emittedTokens }, outputTokens), capacity),
  };
}
