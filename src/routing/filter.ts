import type { ReplicaId } from "../protocol/ids.ts";
import type { FitnessFacts } from "../replicas/replica-state.ts";

/** Why a replica is not even asked for its forecast. */
export type Unfit = "excluded" | "model" | "not-ready" | "ejected" | "full";

/** What a replica must be fit for. */
export interface FitRequest {
  readonly excludedReplicaIds: readonly ReplicaId[];
}

/**
 * Says what keeps a request from a replica whatever it would have to wait there, or `undefined`.
 *
 * Of several reasons the one is named that lasts longest. Only `full` ends by itself within a
 * request's time: for a replica that is full and nothing else a request may wait.
 */
export function whyNot(replica: FitnessFacts, request: FitRequest): Unfit | undefined {
  if (request.excludedReplicaIds.includes(replica.replicaId)) return "excluded";
  if (!replica.isReady) return "not-ready";
  if (!replica.hasModel) return "model";
  if (replica.isEjected) return "ejected";
  return replica.freeSlots > 0 ? undefined : "full";
}
