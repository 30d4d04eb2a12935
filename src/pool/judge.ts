import type { Replica } from "../replicas/replica.ts";
import type { PickAmong, PickRequest } from "./pick-replica.ts";
import { pickReplica } from "./pick-replica.ts";
import type { Waiter } from "./wait-queue.ts";

/** Now, later or never. */
export type Verdict =
  | { readonly kind: "admit"; readonly replica: Replica }
  | {
      readonly kind: "wait";
      /** From then on the verdict is another one, unless something happens before. */
      readonly recheckAtMs: number;
      readonly predictedWaitMs: number | undefined;
    }
  | {
      readonly kind: "reject";
      readonly reason: "infeasible" | "unattainable" | "no-replica";
      readonly predictedWaitMs: number | undefined;
    };

/** What a verdict depends on beside the request. */
export interface Circumstances extends PickAmong {
  /** False while the pool cannot keep track of another request. */
  readonly canAdmit: boolean;
  /** Until then a pool without replicas expects some to dial in. */
  readonly relearnUntilMs: number;
}

/**
 * Gives the verdict on one request. It waits only for a slot of a replica that could still answer
 * in time, and only until the moment at which none can.
 */
export function judge(request: Waiter, circumstances: Circumstances): Verdict {
  const picked = pickReplica(toPickRequest(request, circumstances.nowMs), circumstances);
  if (picked.kind === "infeasible") {
    return refuseLate(request, picked.predictedWaitMs, circumstances.replicas);
  }
  if (picked.kind === "none") return awaitReplica(request, circumstances);
  if (picked.kind === "picked" && circumstances.canAdmit) {
    return { kind: "admit", replica: picked.replica };
  }
  // Waits until the first whole millisecond at which the prediction no longer fits.
  const deadlineAtMs = request.firstTokenDeadlineAtMs;
  const lateAtMs = Math.floor(deadlineAtMs - picked.predictedWaitMs) + 1;
  return {
    kind: "wait",
    recheckAtMs: Math.min(deadlineAtMs, lateAtMs),
    predictedWaitMs: picked.predictedWaitMs,
  };
}

/** Turns a waiting request into what a replica is picked for at an instant. */
export function toPickRequest(request: Waiter, nowMs: number): PickRequest {
  return {
    excludedReplicaIds: request.offer.excludedReplicaIds,
    promptTokens: request.promptTokens,
    budgetMs: request.firstTokenDeadlineAtMs - nowMs,
  };
}

/**
 * Tells a bad moment from a request that has no good one. Every replica counts, also one that
 * drains, failed this request or has not been heard of: only if none could ever do it is the prompt.
 */
function refuseLate(
  { offer, promptTokensMin }: Waiter,
  predictedWaitMs: number,
  replicas: Iterable<Replica>,
): Verdict {
  const idleWaitsMs = [...replicas].map((replica) =>
    replica.isRemoved ? Infinity : (replica.idleWaitMs(promptTokensMin) ?? 0),
  );
  const idleWaitMs = Math.min(...idleWaitsMs);
  return idleWaitMs > offer.firstTokenTargetMs
    ? { kind: "reject", reason: "unattainable", predictedWaitMs: idleWaitMs }
    : { kind: "reject", reason: "infeasible", predictedWaitMs };
}

/** Waits for a replica to dial in while a new pool relearns, if there is one to expect. */
function awaitReplica(
  request: Waiter,
  { replicas, relearnUntilMs, nowMs }: Circumstances,
): Verdict {
  const { excludedReplicaIds } = request.offer;
  const isExpected = [...replicas].some(
    (replica) => replica.isExpected(nowMs) && !excludedReplicaIds.includes(replica.replicaId),
  );
  const recheckAtMs = Math.min(request.firstTokenDeadlineAtMs, relearnUntilMs);
  if (isExpected && recheckAtMs > nowMs) {
    return { kind: "wait", recheckAtMs, predictedWaitMs: undefined };
  }
  return { kind: "reject", reason: "no-replica", predictedWaitMs: undefined };
}
