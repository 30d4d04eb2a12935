import type { HistogramState } from "../base/histogram.ts";
import { emptyHistogram, observe } from "../base/histogram.ts";
import { FIRST_TOKEN_BUCKETS, REQUEST_BUCKETS } from "../slo/metric-buckets.ts";
import type { RouteResult } from "../routing/route-result.ts";
import type { Lease } from "./lease-book.ts";
import type { Outcome, Rejection, RetryReason } from "./offer.ts";
import type { PoolRequest } from "./pool-request.ts";
import { elapsedMsOf } from "./pool-request.ts";
import type { ServedTimesState } from "./served-times.ts";
import { ServedTimes } from "./served-times.ts";

/** What a first token took, as a share of what was foreseen. */
export const FORECAST_RATIO_BUCKETS = [0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10];

/** What came of a late request's wish for a second copy: it was sent, or why it was not. */
export type HedgeResult =
  | "sent"
  | "settled"
  | "out-of-profile"
  | "unstoppable"
  | "not-begun"
  | "no-room"
  | "no-budget"
  | "infeasible";

/** What came of an answer that was to go on on another replica. */
type ContinuationResult = "completed" | "failed" | "client-gone" | "refused" | "withdrawn";

/** What a {@link PoolTotals} remembers; histograms of seconds, but for the ratio. */
export interface PoolTotalsState {
  readonly rejectedBy: Record<Rejection["reason"], number>;
  readonly endedBy: Record<Outcome["kind"], number>;
  /** Those among them whose own time was over. */
  timedOut: number;
  readonly tokens: { input: number; cachedInput: number; output: number; reasoning: number };
  /** Dispatches of requests that had been dispatched before. */
  readonly retriedBy: Record<RetryReason, number>;
  readonly routedBy: Record<RouteResult, number>;
  readonly hedges: Record<HedgeResult, number>;
  /** Hedges whose answer came first. */
  hedgesWon: number;
  readonly continuations: Record<ContinuationResult, number>;
  readonly queueWait: HistogramState;
  /** From the dispatch: what was expected, and what came. */
  readonly expectedFirstToken: HistogramState;
  readonly actualFirstToken: HistogramState;
  readonly firstTokenRatio: HistogramState;
  readonly served: ServedTimesState;
}

/** Totals of which each is zero. */
export function noTotals(): PoolTotalsState {
  return {
    rejectedBy: {
      infeasible: 0,
      unattainable: 0,
      "out-of-profile": 0,
      "queue-full": 0,
      "deadline-passed": 0,
      "no-replica": 0,
      closed: 0,
      withdrawn: 0,
    },
    endedBy: {
      completed: 0,
      "client-gone": 0,
      "upstream-failed": 0,
      "upstream-refused": 0,
      displaced: 0,
      overtaken: 0,
      abandoned: 0,
    },
    timedOut: 0,
    tokens: { input: 0, cachedInput: 0, output: 0, reasoning: 0 },
    retriedBy: { failed: 0, refused: 0, displaced: 0, interrupted: 0 },
    routedBy: { failover: 0, prefix: 0, primary: 0, spill: 0 },
    hedges: {
      sent: 0,
      settled: 0,
      "out-of-profile": 0,
      unstoppable: 0,
      "not-begun": 0,
      "no-room": 0,
      "no-budget": 0,
      infeasible: 0,
    },
    hedgesWon: 0,
    continuations: { completed: 0, failed: 0, "client-gone": 0, refused: 0, withdrawn: 0 },
    queueWait: emptyHistogram(REQUEST_BUCKETS),
    expectedFirstToken: emptyHistogram(FIRST_TOKEN_BUCKETS),
    actualFirstToken: emptyHistogram(FIRST_TOKEN_BUCKETS),
    firstTokenRatio: emptyHistogram(FORECAST_RATIO_BUCKETS),
    served: new Map(),
  };
}

/** What only ever grows in the life of a pool, for metrics: no decision is made by it. */
export class PoolTotals {
  readonly state: PoolTotalsState;
  readonly served: ServedTimes;

  constructor(state: PoolTotalsState = noTotals()) {
    this.state = state;
    this.served = new ServedTimes(state.served);
  }

  rejected({ continued }: PoolRequest["offer"], reason: Rejection["reason"]): void {
    this.state.rejectedBy[reason] += 1;
    if (continued === undefined) return;
    this.state.continuations[reason === "withdrawn" ? "withdrawn" : "refused"] += 1;
  }

  dispatched(request: PoolRequest, route: RouteResult, nowMs: number): void {
    const { isRetry, retryReason = "failed" } = request.offer;
    if (isRetry) this.state.retriedBy[retryReason] += 1;
    this.state.routedBy[route] += 1;
    const queuedMs = elapsedMsOf(request, nowMs) - request.offer.elapsedMs;
    observe(this.state.queueWait, REQUEST_BUCKETS, queuedMs / 1000);
  }

  /** A second copy of a late request was asked for. */
  hedged(result: HedgeResult): void {
    this.state.hedges[result] += 1;
  }

  /** The first token came so long after the dispatch. */
  started(lease: Lease, firstTokenAfterMs: number): void {
    const { spentMs, foreseen, isHedge, emittedTokens } = lease;
    const { predictedMs } = foreseen.ttft;
    const { state } = this;
    if (isHedge) state.hedgesWon += 1;
    // That of an answer which goes on has come long ago.
    if (emittedTokens === 0) {
      this.served.firstToken(lease, (spentMs + firstTokenAfterMs) / 1000);
    }
    observe(state.expectedFirstToken, FIRST_TOKEN_BUCKETS, predictedMs / 1000);
    observe(state.actualFirstToken, FIRST_TOKEN_BUCKETS, firstTokenAfterMs / 1000);
    if (predictedMs <= 0) return;
    observe(state.firstTokenRatio, FORECAST_RATIO_BUCKETS, firstTokenAfterMs / predictedMs);
  }

  /** How fast answers come is told only of whole ones: others end early or late for reasons of their own. */
  ended(lease: Lease, outcome: Outcome, nowMs: number): void {
    const { spentMs, dispatchedAtMs, emittedTokens } = lease;
    const { kind, promptTokens = 0, cachedTokens = 0, outputTokens = 0, decodeMs } = outcome;
    const { endedBy, tokens } = this.state;
    endedBy[kind] += 1;
    tokens.input += promptTokens;
    tokens.cachedInput += cachedTokens;
    tokens.output += outputTokens;
    tokens.reasoning += outcome.reasoningTokens ?? 0;
    if (outcome.isTimedOut === true) this.state.timedOut += 1;
    if (emittedTokens > 0) this.state.continuations[continuationResultOf(kind)] += 1;
    if (kind !== "completed") return;
    const durationMs = spentMs + Math.max(0, nowMs - dispatchedAtMs);
    this.served.request(lease, durationMs / 1000);
    // The pace of an answer in parts is that of no replica, and its gap no pace.
    if (decodeMs === undefined || outputTokens < 2 || emittedTokens > 0) return;
    this.served.tokenGap(lease, decodeMs / (outputTokens - 1) / 1000);
  }
}

function continuationResultOf(kind: Outcome["kind"]): ContinuationResult {
  return kind === "completed" || kind === "client-gone" ? kind : "failed";
}
