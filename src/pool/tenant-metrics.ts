import type { MetricFamily, MetricSample } from "../base/metric-text.ts";
import { metricFamily, withLabel } from "../base/metric-text.ts";
import { SLO_METRICS } from "../slo/attainment.ts";
import type { AttainmentCounts, AttainmentWindow } from "../slo/attainment-window.ts";
import { attainedRatio, burnRate } from "../slo/error-budget.ts";
import type { TenantBook } from "./tenant-book.ts";

/** Of more tenants than this the ones heard of last are told; the pool's own counters count all of them. */
const TENANTS_MAX = 1_000;

const WINDOWS = [
  { window: "5m", windowMs: 300_000 },
  { window: "1h", windowMs: 3_600_000 },
] as const;

interface Told {
  readonly labels: string;
  readonly total: Readonly<AttainmentCounts>;
}

/** Tells of each tenant what became of its requests, and whether its promise holds. */
export function tenantMetrics(book: TenantBook, pool: string, nowMs: number): MetricFamily[] {
  const latest = [...book.state].slice(-TENANTS_MAX);
  const told = latest.map(([tenantId, { budgetRatio }]) => {
    const labels = withLabel(pool, "tenant", tenantId);
    const attained = book.windowOf(tenantId);
    return {
      labels,
      total: attained.total,
      promise: promiseOf(attained, budgetRatio, labels, nowMs),
    };
  });
  return [
    metricFamily({ name: "gw_tenants", type: "gauge", help: "Tenants that the pool remembers" }, [
      { labels: pool, value: book.size },
    ]),
    ...countMetrics(told),
    metricFamily(
      {
        name: "gw_tenant_attainment_ratio",
        type: "gauge",
        help: "Share of its judged requests that met every target; absent where none was judged",
      },
      told.flatMap(({ promise }) => promise.attained),
    ),
    metricFamily(
      {
        name: "gw_tenant_burn_rate",
        type: "gauge",
        help: "How many times faster than allowed its error budget is spent",
      },
      told.flatMap(({ promise }) => promise.burning),
    ),
  ];
}

function countMetrics(told: readonly Told[]): MetricFamily[] {
  const counter = (
    name: string,
    help: string,
    read: (counts: Readonly<AttainmentCounts>) => number,
  ): MetricFamily => {
    const samples = told.map(({ labels, total }) => ({ labels, value: read(total) }));
    return metricFamily({ name, type: "counter", help }, samples);
  };
  const byProfile = (
    name: string,
    help: string,
    read: (counts: Readonly<AttainmentCounts>, isInProfile: boolean) => number,
  ): MetricFamily => {
    const samples = told.flatMap(({ labels, total }) =>
      [true, false].map((isInProfile) => ({
        labels: withLabel(labels, "in_profile", String(isInProfile)),
        value: read(total, isInProfile),
      })),
    );
    return metricFamily({ name, type: "counter", help }, samples);
  };
  return [
    byProfile(
      "gw_tenant_offered_total",
      "Its requests, within its guarantee and beyond",
      (counts, isInProfile) =>
        isInProfile ? counts.offeredInProfile : counts.offered - counts.offeredInProfile,
    ),
    counter("gw_tenant_admitted_total", "Those sent to a replica", (counts) => counts.admitted),
    counter("gw_tenant_good_total", "Those that met every target", (counts) => counts.good),
    counter(
      "gw_tenant_degraded_total",
      "Those that met every target by being cut short",
      (counts) => counts.degraded,
    ),
    counter("gw_tenant_missed_total", "Those that missed a target", (counts) => counts.missed),
    missedByMetric(told),
    counter(
      "gw_tenant_excluded_total",
      "Those that say nothing of the promise, as their client left early",
      (counts) => counts.excluded,
    ),
    byProfile(
      "gw_tenant_refused_total",
      "Those refused, within its guarantee and beyond",
      (counts, isInProfile) =>
        isInProfile ? counts.rejectedInProfile : counts.rejectedOutOfProfile,
    ),
  ];
}

function missedByMetric(told: readonly Told[]): MetricFamily {
  const samples = told.flatMap(({ labels, total }) =>
    SLO_METRICS.map((target) => ({
      labels: withLabel(labels, "target", target),
      value: total.missedBy[target],
    })),
  );
  return metricFamily(
    {
      name: "gw_tenant_missed_by_total",
      type: "counter",
      help: "Those that missed a target, by target; one may miss several",
    },
    samples,
  );
}

function promiseOf(
  attained: AttainmentWindow,
  budgetRatio: number,
  labels: string,
  nowMs: number,
): { readonly attained: MetricSample[]; readonly burning: MetricSample[] } {
  const sums = WINDOWS.map(({ window, windowMs }) => ({
    labels: withLabel(labels, "window", window),
    counts: attained.sum(windowMs, nowMs),
  }));
  return {
    attained: sums.flatMap(({ labels: ofWindow, counts }) => {
      const value = attainedRatio(counts);
      return value === undefined ? [] : [{ labels: ofWindow, value }];
    }),
    burning: sums.map(({ labels: ofWindow, counts }) => ({
      labels: ofWindow,
      value: burnRate(counts, budgetRatio),
    })),
  };
}
