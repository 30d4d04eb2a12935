import type { MetricFamily, MetricSample } from "../base/metric-text.ts";
import { metricFamily, withLabel } from "../base/metric-text.ts";
import type { ReplicaReport } from "../protocol/engine-api.ts";
import type { HealthStatus } from "../replicas/health.ts";
import type { ReplicaCondition } from "../replicas/replica-condition.ts";
import type { Replica } from "../replicas/replica.ts";

const CONDITIONS: readonly ReplicaCondition[] = [
  "ready",
  "silent",
  "draining",
  "unready",
  "disconnected",
  "removed",
];
const HEALTHS: readonly HealthStatus[] = ["healthy", "suspect", "ejected", "probing"];

/** Tells of each replica what its pool believes of it, and what it last said of itself. */
export function replicaMetrics(
  replicas: Iterable<Replica>,
  pool: string,
  nowMs: number,
): MetricFamily[] {
  const all = [...replicas].map((replica) => ({
    replica,
    labels: withLabel(pool, "replica", replica.replicaId),
  }));
  /** What a replica has not said is not told: a 0 would be taken for its word. */
  const said = (name: string, help: string, read: (report: ReplicaReport) => number) => {
    const samples = all.flatMap(({ replica, labels }) =>
      replica.lastReport === undefined ? [] : [{ labels, value: read(replica.lastReport) }],
    );
    return gauge(name, help, samples);
  };
  const states = all.flatMap(({ replica, labels }) =>
    oneOf(CONDITIONS, replica.conditionAt(nowMs), "state", labels),
  );
  const healths = all.flatMap(({ replica, labels }) =>
    oneOf(HEALTHS, replica.health.statusAt(nowMs), "health", labels),
  );
  const outstanding = all.map(({ replica, labels }) => ({ labels, value: replica.outstanding }));
  return [
    gauge("gw_replica_state", "1 for the state that a replica is in", states),
    gauge("gw_replica_health", "1 for the health that a replica is taken to have", healths),
    gauge("gw_replica_inflight", "Requests with a lease of this pool on a replica", outstanding),
    said("gw_replica_running", "Requests that run there", (report) => report.runningRequests),
    said("gw_replica_queue_depth", "Requests that wait there", (report) => report.queuedRequests),
    said(
      "gw_replica_kv_usage_ratio",
      "Share of its KV blocks that running requests hold",
      ({ usedBlocks, blockCount }) => (blockCount === 0 ? 0 : usedBlocks / blockCount),
    ),
    said(
      "gw_replica_speed_ratio",
      "How many times slower it is than it measured itself to be",
      (report) => report.speedRatio,
    ),
  ];
}

function oneOf<Name extends string>(
  names: readonly Name[],
  current: Name,
  label: string,
  labels: string,
): MetricSample[] {
  return names.map((name) => ({
    labels: withLabel(labels, label, name),
    value: name === current ? 1 : 0,
  }));
}

function gauge(name: string, help: string, samples: readonly MetricSample[]): MetricFamily {
  return metricFamily({ name, type: "gauge", help }, samples);
}
