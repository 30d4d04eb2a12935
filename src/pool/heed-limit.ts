import type { SaidLimit } from "../protocol/said-limit.ts";
import type { ReplicaSet } from "../replicas/replica-set.ts";
import type { Replica } from "../replicas/replica.ts";
import { slotsMaxOf } from "../replicas/replica-state.ts";
import type { AnsweredRequest } from "../replicas/upstream-quota.ts";
import type { Lease } from "./lease-book.ts";

/** Takes to heart what a server has said of its limits in the head of an answer. */
export function heedLimit(
  lease: Lease,
  { isRefused, holdOffMs, lacksModel }: SaidLimit,
  replicas: ReplicaSet,
  nowMs: number,
): void {
  const replica = replicas.get(lease.replicaId);
  if (replica?.plain === undefined) return;
  if (holdOffMs > 0) replica.quota.holdUntil(nowMs + holdOffMs);
  const { replicaModelId } = lease;
  if (lacksModel && replicaModelId !== undefined) replica.models.refused(replicaModelId, nowMs);
  if (isRefused)
    replica.quota.refused(answeredBy(lease, replica), replica.state.residents.sentNumber);
}

/**
 * Learns from how long a first token took, where that is all there is to learn from: of one that tells its load,
 * that says more.
 */
export function noteFirstToken(lease: Lease, replica: Replica, firstTokenMs: number): void {
  if (replica.plain?.engine !== "openai") return;
  const tokens = Math.max(0, lease.promptTokens - lease.cachedTokens);
  const took = { firstTokenMs: Math.max(0, firstTokenMs), tokens };
  replica.quota.answered(answeredBy(lease, replica), took, replica.state.residents.sentNumber);
}

function answeredBy({ dispatchNumber }: Lease, replica: Replica): AnsweredRequest {
  const { outstanding } = replica;
  return { dispatchNumber, outstanding, outstandingMax: slotsMaxOf(replica.state) };
}
