import { assert } from "../base/assert.ts";
import type { ReplicaId } from "../protocol/ids.ts";
import type { PoolParts } from "./pool-parts.ts";
import type { PoolState } from "./pool-state.ts";

/** Throws when a law of conservation of requests is broken. */
export function checkRequests(
  { counts, waiting, waitingCostMs }: PoolState,
  { queue, leases }: PoolParts,
): void {
  const { offered, dispatched, hedged, split, rejected } = counts;
  const verdicts = dispatched - hedged - split + rejected;
  assert(offered === verdicts + queue.size, "every offer has one verdict or waits");
  assert(waiting.size === queue.size, "the queue knows whom it holds");
  let costMs = 0;
  for (const request of waiting.values()) costMs += request.costMs;
  assert(costMs === waitingCostMs, "the cost of those who wait is theirs");
  let charged = 0;
  for (const { isCharged } of leases) charged += isCharged ? 1 : 0;
  assert(queue.requestsInFlight === charged, "who has a lease was charged for it once");
}

/** Throws unless every slot that is taken is one of a lease that is alive, or of its prefill. */
export function checkSlots({ leases, replicas }: PoolParts): void {
  const slotsOn = new Map<ReplicaId, number>();
  const count = (replicaId: ReplicaId): void =>
    void slotsOn.set(replicaId, (slotsOn.get(replicaId) ?? 0) + 1);
  for (const { replicaId, isLost, prefill } of leases) {
    if (!isLost) count(replicaId);
    if (prefill?.isOver === false) count(prefill.replicaId);
  }
  for (const { replicaId, outstanding } of replicas) {
    assert(outstanding === (slotsOn.get(replicaId) ?? 0), "slots taken are leases alive");
    slotsOn.delete(replicaId);
  }
  assert(slotsOn.size === 0, "every lease is on a replica that is known");
}
