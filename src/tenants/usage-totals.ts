import type { Picos } from "./money.ts";

/** What has been used for good: running totals that only grow. */
export interface UsageTotals {
  /** Requests that a replica was asked to answer. */
  requests: number;
  promptTokens: number;
  outputTokens: number;
  /** Prompt tokens found in a replica's prefix cache; they count as prompt tokens too. */
  cachedTokens: number;
  /** Requests whose tokens no replica has counted. */
  estimatedRequests: number;
  /** At the prices that each request was reserved at. */
  spentPicos: Picos;
}

/** What one request has used. */
export interface TokenUse {
  readonly promptTokens: number;
  readonly outputTokens: number;
  readonly cachedTokens: number;
  readonly isEstimated: boolean;
}

export function noUsage(): UsageTotals {
  return {
    requests: 0,
    promptTokens: 0,
    outputTokens: 0,
    cachedTokens: 0,
    estimatedRequests: 0,
    spentPicos: 0n,
  };
}

/** Counts one more request, which has cost so much. */
export function countUse(totals: UsageTotals, use: TokenUse, costPicos: Picos): void {
  totals.requests += 1;
  totals.promptTokens += use.promptTokens;
  totals.outputTokens += use.outputTokens;
  totals.cachedTokens += use.cachedTokens;
  totals.estimatedRequests += use.isEstimated ? 1 : 0;
  totals.spentPicos += costPicos;
}

/** Adds what others have used. */
export function addUsage(totals: UsageTotals, other: Readonly<UsageTotals>): void {
  totals.requests += other.requests;
  totals.promptTokens += other.promptTokens;
  totals.outputTokens += other.outputTokens;
  totals.cachedTokens += other.cachedTokens;
  totals.estimatedRequests += other.estimatedRequests;
  totals.spentPicos += other.spentPicos;
}
