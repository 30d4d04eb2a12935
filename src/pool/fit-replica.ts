import type { Replica } from "../replicas/replica.ts";
import { whyNot } from "../routing/filter.ts";
import type { PoolRequest } from "./pool-request.ts";

/** Whether a request may be sent to a replica at all; `slotsToCome` are those that will be free. */
export function isFit(
  replica: Replica,
  request: PoolRequest,
  nowMs: number,
  slotsToCome: 0 | 1 = 0,
): boolean {
  const freeSlots = replica.freeSlots + slotsToCome;
  // Asked of every replica for everybody who waits, and then this is mostly why not.
  if (freeSlots <= 0) return false;
  const facts = replica.factsAt(nowMs);
  return whyNot({ ...facts, freeSlots }, request.offer) === undefined;
}
