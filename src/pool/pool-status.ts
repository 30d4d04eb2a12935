import type { ReplicaId } from "../protocol/ids.ts";
import type { Replica, ReplicaState } from "../replicas/replica.ts";

/** What a pool believes of one replica, for people and dashboards. */
export interface ReplicaStatus {
  readonly replicaId: ReplicaId;
  readonly endpointUrl: string;
  readonly state: ReplicaState;
  /** Requests with a lease of this pool. */
  readonly outstanding: number;
  /** As the replica last reported; absent while it has not. */
  readonly running?: number;
  readonly queued?: number;
  readonly usedBlocks?: number;
  readonly blockCount?: number;
  readonly prefillTokensPerSecond?: number;
  readonly stepMs?: number;
}

/** A pool at one instant. The three counts are of this life of the pool. */
export interface PoolStatus {
  readonly queued: number;
  readonly queueMax: number;
  /** Dispatched requests that have not ended. */
  readonly leases: number;
  readonly offered: number;
  readonly dispatched: number;
  readonly rejected: number;
  readonly replicas: readonly ReplicaStatus[];
}

/** Describes a replica as the pool sees it at an instant. */
export function toReplicaStatus(replica: Replica, nowMs: number): ReplicaStatus {
  const report = replica.lastReport;
  return {
    replicaId: replica.replicaId,
    endpointUrl: replica.endpointUrl,
    state: replica.stateAt(nowMs),
    outstanding: replica.outstanding,
    ...(report !== undefined && {
      running: report.runningRequests,
      queued: report.queuedRequests,
      usedBlocks: report.usedBlocks,
      blockCount: report.blockCount,
      prefillTokensPerSecond: report.prefillTokensPerSecond,
      stepMs: report.stepMs,
    }),
  };
}
