import type { ReplicaId, TenantId } from "../protocol/ids.ts";
import type { HealthStatus } from "../replicas/health.ts";
import type { ReplicaCondition } from "../replicas/replica-condition.ts";
import { roleOf } from "../replicas/replica-state.ts";
import type { Replica } from "../replicas/replica.ts";
import type { AttainmentCounts } from "../slo/attainment-window.ts";
import type { PoolParts } from "./pool-parts.ts";
import type { PoolState } from "./pool-state.ts";

/** What a pool believes of one replica, for people and dashboards. */
interface ReplicaStatus {
  readonly replicaId: ReplicaId;
  readonly endpointUrl: string;
  /** Present where it is not for everything. */
  readonly role?: "prefill" | "decode";
  readonly state: ReplicaCondition;
  readonly health: HealthStatus;
  /** Requests with a lease of this pool. */
  readonly outstanding: number;
  /** Requests that it seems to take at once, where that was found to be fewer than it may be sent. */
  readonly ceiling?: number;
  /** For how long it wants to be left alone yet. */
  readonly heldForMs?: number;
  /** Names by which it says it serves models; absent where it does not say. */
  readonly models?: readonly string[];
  /** As the replica last reported; absent while it has not. */
  readonly running?: number;
  readonly queued?: number;
  readonly usedBlocks?: number;
  readonly blockCount?: number;
  readonly prefillTokensPerSecond?: number;
  readonly stepMs?: number;
  readonly speedRatio?: number;
}

/** How a tenant has fared in the last five minutes. */
export interface TenantStatus {
  readonly tenantId: TenantId;
  readonly counts: AttainmentCounts;
}

/** A pool at one instant. The counts without a window are of this life of the pool. */
export interface PoolStatus {
  /** Nothing is taken in, by an operator's word. */
  readonly isClosed: boolean;
  readonly queued: number;
  readonly queueMax: number;
  /** Dispatched requests that have not ended. */
  readonly leases: number;
  readonly offered: number;
  readonly dispatched: number;
  readonly rejected: number;
  readonly displaced: number;
  /** Second copies of late requests, among those dispatched. */
  readonly hedged: number;
  /** Prompts that were computed for another replica, among those dispatched. */
  readonly split: number;
  /** Which share of its targets a request beyond its tenant's guarantee may use. */
  readonly holdRatio: number;
  /** GPU-ms of the fastest replica that pass in a millisecond; absent before one was ready. */
  readonly capacityMsPerMs?: number;
  readonly replicas: readonly ReplicaStatus[];
  readonly tenants: readonly TenantStatus[];
}

const WINDOW_MS = 300_000;
/** A status is read by people; the metrics tell of more tenants. */
const TENANTS_MAX = 100;

/** Describes a pool at an instant. */
export function toPoolStatus(state: PoolState, parts: PoolParts, nowMs: number): PoolStatus {
  const { counts, capacity } = state;
  const latestTenants = [...state.tenants.keys()].slice(-TENANTS_MAX);
  return {
    isClosed: state.isClosed === true,
    queued: parts.queue.size,
    queueMax: state.queueMax,
    leases: parts.leases.size,
    ...counts,
    holdRatio: state.holdBack.ratio,
    ...(capacity !== undefined && { capacityMsPerMs: capacity.rateMsPerMs }),
    replicas: [...parts.replicas].map((replica) => toReplicaStatus(replica, nowMs)),
    tenants: latestTenants.map((tenantId) => ({
      tenantId,
      counts: parts.tenants.windowOf(tenantId).sum(WINDOW_MS, nowMs),
    })),
  };
}

function toReplicaStatus(replica: Replica, nowMs: number): ReplicaStatus {
  const report = replica.lastReport;
  const role = roleOf(replica.state);
  const { ceiling, state } = replica.quota;
  const { told } = replica.state.models;
  const heldForMs = (state.heldUntilMs ?? nowMs) - nowMs;
  return {
    replicaId: replica.replicaId,
    endpointUrl: replica.endpointUrl,
    ...(role !== "mixed" && { role }),
    state: replica.conditionAt(nowMs),
    health: replica.health.statusAt(nowMs),
    outstanding: replica.outstanding,
    ...(ceiling < Infinity && { ceiling }),
    ...(heldForMs > 0 && { heldForMs }),
    ...(told !== undefined && { models: [...told.names.keys()] }),
    ...(report !== undefined && {
      running: report.runningRequests,
      queued: report.queuedRequests,
      usedBlocks: report.usedBlocks,
      blockCount: report.blockCount,
      prefillTokensPerSecond: report.prefillTokensPerSecond,
      stepMs: report.stepMs,
      speedRatio: report.speedRatio,
    }),
  };
}
