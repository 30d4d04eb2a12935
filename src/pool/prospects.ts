import type { ReplicaId } from "../protocol/ids.ts";
import type { ReplicaSet } from "../replicas/replica-set.ts";
import type { Replica } from "../replicas/replica.ts";
import { whyNot } from "../routing/filter.ts";
import type { Lease } from "./lease-book.ts";
import type { Prospects } from "./offer.ts";

/** A server that never reports may be silent for so many times what an answer is foreseen to take. */
const MUTE_RATIO = 3;
/** And for so long at any rate: of a new one nobody knows yet how slow it is. */
const MUTE_MS_MIN = 30_000;

/** How a request that its replica does not answer fares there, and whether another could take it. */
export function prospectsOf(
  lease: Lease,
  triedReplicaIds: readonly ReplicaId[],
  replicas: ReplicaSet,
  nowMs: number,
): Prospects {
  const excludedReplicaIds = [...triedReplicaIds, lease.replicaId];
  const hasOther = [...replicas].some(
    (replica) =>
      whyNot(replica.factsAt(nowMs, lease.replicaModelId), { excludedReplicaIds }) === undefined,
  );
  return { hasOther, isSilent: isSilent(lease, replicas.get(lease.replicaId), nowMs) };
}

function isSilent(lease: Lease, replica: Replica | undefined, nowMs: number): boolean {
  const condition = replica?.conditionAt(nowMs) ?? "removed";
  return condition === "silent" || condition === "disconnected" || isMute(lease, replica, nowMs);
}

/**
 * Whether a request waits at a server of which nothing is heard any more. One that never reports is heard
 * of by what it answers, whomever: as long as it answers others, a long answer is just long.
 */
export function isMute(lease: Lease, replica: Replica | undefined, nowMs: number): boolean {
  if (replica?.plain === undefined || lease.startedAtMs !== undefined) return false;
  const { ttft, tpot } = lease.foreseen;
  const decodeMs = lease.isStreamed ? 0 : tpot.boundMs * (lease.outputTokensHigh - 1);
  const heardAtMs = Math.max(lease.dispatchedAtMs, replica.state.answeredAtMs ?? -Infinity);
  return nowMs - heardAtMs >= Math.max(MUTE_MS_MIN, MUTE_RATIO * (ttft.boundMs + decodeMs));
}
