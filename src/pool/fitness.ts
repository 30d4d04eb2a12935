import type { Replica } from "../replicas/replica.ts";
import { whyNot } from "../routing/filter.ts";
import type { PoolRequest } from "./pool-request.ts";

/** Whether a replica can be asked for a request at all; `slotsToCome`: one of its requests is about to leave. */
export function isFit(
  replica: Replica,
  request: PoolRequest,
  nowMs: number,
  slotsToCome: 0 | 1 = 0,
): boolean {
  const freeSlots = replica.freeSlots + slotsToCome;
  // Asked of every replica for everybody who waits, and then this is mostly why not.
  if (freeSlots <= 0 || replica.quota.isHeldAt(nowMs)) return false;
  const facts = replica.factsAt(nowMs);
  return whyNot({ ...facts, freeSlots }, request.offer) === undefined;
}
