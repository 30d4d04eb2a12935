import { roleOf } from "../replicas/replica-state.ts";
import type { Replica } from "../replicas/replica.ts";
import { whyNot } from "../routing/filter.ts";
import type { PoolRequest } from "./pool-request.ts";

/** Whether a request can be sent to a replica now; `slotsToCome`: one of those there is about to leave. */
export function isFit(
  replica: Replica,
  { offer }: PoolRequest,
  nowMs: number,
  slotsToCome: 0 | 1 = 0,
): boolean {
  const freeSlots = replica.freeSlots + slotsToCome;
  // Asked of every replica for everybody who waits, and then this is mostly why not.
  if (freeSlots <= 0 || replica.quota.isHeldAt(nowMs)) return false;
  const facts = replica.factsAt(nowMs, offer.replicaModelId);
  return whyNot({ ...facts, freeSlots }, offer) === undefined;
}

/** Whether a request could be sent to a replica as soon as there is room. */
export function isOfUse(replica: Replica, { offer }: PoolRequest, nowMs: number): boolean {
  if (replica.conditionAt(nowMs) !== "ready") return false;
  if (offer.excludedReplicaIds.includes(replica.replicaId)) return false;
  return replica.models.has(offer.replicaModelId, nowMs);
}

/** Whether every replica in use is known not to have the model: not for want of one that is well. */
export function isModelAbsent(
  { offer }: PoolRequest,
  replicas: Iterable<Replica>,
  nowMs: number,
): boolean {
  let isKnown = false;
  for (const { isRemoved, models } of replicas) {
    if (isRemoved) continue;
    if (models.has(offer.replicaModelId, nowMs)) return false;
    isKnown = true;
  }
  return isKnown;
}

/**
 * Whether a replica is one for whole requests. Those that prefill for others are kept for that, but where
 * nobody else is well: an answer beside prefills is better than none.
 */
export function isForWhole(
  replica: Replica,
  request: PoolRequest,
  replicas: Iterable<Replica>,
  nowMs: number,
): boolean {
  if (roleOf(replica.state) !== "prefill") return true;
  for (const other of replicas) {
    if (roleOf(other.state) === "prefill" || !isOfUse(other, request, nowMs)) continue;
    if (other.health.canTake(nowMs)) return false;
  }
  return true;
}
