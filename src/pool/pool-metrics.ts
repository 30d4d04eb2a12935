import type { MetricFamily, MetricName, MetricSample } from "../base/metric-text.ts";
import { histogramFamily, metricFamily, NO_LABELS, withLabel } from "../base/metric-text.ts";
import type { HistogramState } from "../base/histogram.ts";
import type { PoolId } from "../protocol/ids.ts";
import { FIRST_TOKEN_BUCKETS, REQUEST_BUCKETS } from "../slo/metric-buckets.ts";
import type { PoolParts } from "./pool-parts.ts";
import type { PoolState } from "./pool-state.ts";
import { FORECAST_RATIO_BUCKETS } from "./pool-totals.ts";
import { replicaMetrics } from "./replica-metrics.ts";
import { tenantMetrics } from "./tenant-metrics.ts";

/** Of which pool metrics are told, and when. */
export interface MetricsMoment {
  readonly poolId: PoolId;
  /** Since then its counters count. */
  readonly startedAtMs: number;
  readonly nowMs: number;
}

/**
 * Tells a pool in numbers. Labels are names of the configuration, of what it forecasts for, or one of a
 * fixed list; how many there are is bounded with the pool itself.
 */
export function poolMetrics(
  state: PoolState,
  parts: PoolParts,
  { poolId, startedAtMs, nowMs }: MetricsMoment,
): MetricFamily[] {
  const pool = withLabel(NO_LABELS, "pool", poolId);
  return [
    metricFamily(START, [{ labels: pool, value: startedAtMs / 1000 }]),
    ...verdictMetrics(state, parts, pool),
    ...wayMetrics(state, pool),
    ...endingMetrics(state, pool),
    ...parts.totals.served.metrics(pool),
    ...timeMetrics(state, pool),
    ...forecastMetrics(parts, pool),
    ...parts.promptTotals.metrics(pool),
    ...replicaMetrics(parts.replicas, pool, nowMs),
    ...tenantMetrics(parts.tenants, pool, nowMs),
  ];
}

const START: MetricName = {
  name: "gw_pool_start_time_seconds",
  type: "gauge",
  help: "Unix time since which the pool's counters count; it forgets with its object",
};

const RETRIES: MetricName = {
  name: "gw_upstream_retries_total",
  type: "counter",
  help: "Dispatches of requests that were dispatched before, by what became of that",
};

const ROUTES: MetricName = {
  name: "gw_route_total",
  type: "counter",
  help: "Dispatches by why they went where they went: after a failure, to a prefix, to their route's replica, or elsewhere",
};

function verdictMetrics(state: PoolState, parts: PoolParts, pool: string): MetricFamily[] {
  const { counts, totals, holdBack, queueMax } = state;
  const one = (type: "counter" | "gauge", name: string, help: string, value: number) =>
    metricFamily({ name, type, help }, [{ labels: pool, value }]);
  return [
    one("counter", "gw_offers_total", "Requests offered to the pool, retries too", counts.offered),
    one(
      "counter",
      "gw_dispatches_total",
      "Offers sent to a replica, hedges apart",
      counts.dispatched - counts.hedged - counts.split,
    ),
    one(
      "counter",
      "gw_prefills_split_total",
      "Prompts sent to one replica to be answered by another",
      counts.split,
    ),
    metricFamily(
      {
        name: "gw_admission_rejected_total",
        type: "counter",
        help: "Offers refused by the pool, by reason",
      },
      samplesOf(totals.rejectedBy, "reason", pool),
    ),
    one(
      "counter",
      "gw_displaced_total",
      "Dispatches taken back before they began",
      counts.displaced,
    ),
    one("gauge", "gw_inflight", "Dispatched requests that have not ended", parts.leases.size),
    queueDepth(parts, pool),
    one("gauge", "gw_queue_depth_max", "Requests that may wait in the pool", queueMax),
    one(
      "gauge",
      "gw_hold_back_ratio",
      "Share of its targets that a request beyond its tenant's guarantee may use",
      holdBack.ratio,
    ),
  ];
}

function continuationsOf({ continuations }: PoolState["totals"]): Record<string, number> {
  const { "client-gone": client_abort, ...others } = continuations;
  return { ...others, client_abort };
}

/** Which ways requests took, and how often more than one. */
function wayMetrics({ totals }: PoolState, pool: string): MetricFamily[] {
  const one = (name: string, help: string, value: number) =>
    metricFamily({ name, type: "counter", help }, [{ labels: pool, value }]);
  return [
    metricFamily(RETRIES, samplesOf(totals.retriedBy, "reason", pool)),
    metricFamily(ROUTES, samplesOf(totals.routedBy, "result", pool)),
    metricFamily(
      {
        name: "gw_hedges_total",
        type: "counter",
        help: "Second copies of late requests that were asked for: sent, or why not",
      },
      samplesOf(totals.hedges, "result", pool),
    ),
    one("gw_hedges_won_total", "Second copies that answered first", totals.hedgesWon),
    metricFamily(
      {
        name: "gw_continuations_total",
        type: "counter",
        help: "Answers that were to go on on another replica, by what came of it",
      },
      samplesOf(continuationsOf(totals), "result", pool),
    ),
  ];
}

function queueDepth({ queue }: PoolParts, pool: string): MetricFamily {
  const samples = queue
    .countsByBand()
    .map((value, band) => ({ labels: withLabel(pool, "tier", String(band)), value }));
  const help = "Requests that wait in the pool, by the priority that they have gained by now";
  return metricFamily({ name: "gw_queue_depth", type: "gauge", help }, samples);
}

function endingMetrics({ totals }: PoolState, pool: string): MetricFamily[] {
  const { endedBy, timedOut, tokens } = totals;
  const endings = {
    done: endedBy.completed,
    client_abort: endedBy["client-gone"],
    upstream_error: endedBy["upstream-failed"] - timedOut,
    deadline: timedOut,
    upstream_refused: endedBy["upstream-refused"],
    displaced: endedBy.displaced,
    overtaken: endedBy.overtaken,
    abandoned: endedBy.abandoned,
  };
  const { input, cachedInput: cached_input, output, reasoning } = tokens;
  return [
    metricFamily(
      {
        name: "gw_stream_end_total",
        type: "counter",
        help: "Settled dispatches, by how they ended",
      },
      samplesOf(endings, "by", pool),
    ),
    metricFamily(
      {
        name: "gw_tokens_total",
        type: "counter",
        help: "Tokens that replicas counted; cached_input are those of input found computed, reasoning those of output that are not said",
      },
      samplesOf({ input, cached_input, output, reasoning }, "type", pool),
    ),
  ];
}

function timeMetrics({ totals }: PoolState, pool: string): MetricFamily[] {
  const histogram = (
    name: string,
    help: string,
    bounds: readonly number[],
    values: HistogramState,
  ) => histogramFamily({ name, help }, pool, bounds, values);
  return [
    histogram(
      "gw_queue_wait_seconds",
      "Wait in the pool until a dispatch",
      REQUEST_BUCKETS,
      totals.queueWait,
    ),
    histogram(
      "gw_forecast_first_token_seconds",
      "Expected time from a dispatch to its first token",
      FIRST_TOKEN_BUCKETS,
      totals.expectedFirstToken,
    ),
    histogram(
      "gw_actual_first_token_seconds",
      "Actual time from a dispatch to its first token",
      FIRST_TOKEN_BUCKETS,
      totals.actualFirstToken,
    ),
    histogram(
      "gw_forecast_first_token_ratio",
      "Actual over expected time from a dispatch to its first token",
      FORECAST_RATIO_BUCKETS,
      totals.firstTokenRatio,
    ),
  ];
}

function forecastMetrics({ calibration }: PoolParts, pool: string): MetricFamily[] {
  const bins = calibration.coverage().map(({ profile, dimension, bin, ...coverage }) => ({
    labels: [
      ["dimension", dimension],
      ["profile", profile],
      ["bin", String(bin)],
    ].reduce((labels, [name = "", value = ""]) => withLabel(labels, name, value), pool),
    ...coverage,
  }));
  return [
    metricFamily(
      {
        name: "gw_forecast_bounds_total",
        type: "counter",
        help: "Bounds held against what came, by dimension, what they were for and how near the target",
      },
      bins.map(({ labels, samples }) => ({ labels, value: samples })),
    ),
    metricFamily(
      {
        name: "gw_forecast_bounds_exceeded_total",
        type: "counter",
        help: "Bounds that what came exceeded",
      },
      bins.map(({ labels, exceeded }) => ({ labels, value: exceeded })),
    ),
  ];
}

function samplesOf(
  values: Readonly<Record<string, number>>,
  label: string,
  pool: string,
): MetricSample[] {
  return Object.entries(values).map(([name, value]) => ({
    labels: withLabel(pool, label, name),
    value,
  }));
}
