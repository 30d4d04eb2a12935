import type { Random } from "../base/random.ts";
import type { Replica } from "../replicas/replica.ts";
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
      readonly reason: "infeasible" | "no-replica";
      readonly predictedWaitMs: number | undefined;
    };

type JudgedRequest = Pick<Waiter, "offer" | "promptTokens" | "firstTokenDeadlineAtMs">;

/** What a verdict depends on beside the request. */
export interface Circumstances {
  readonly replicas: Iterable<Replica>;
  /** False while the pool cannot keep track of another request. */
  readonly canAdmit: boolean;
  /** Until then a pool without replicas expects some to dial in. */
  readonly relearnUntilMs: number;
  readonly random: Random;
}

/**
 * Gives the verdict on one request. It waits only for a slot of a replica that could still answer
 * in time, and only until the moment at which none can.
 */
export function judge(
  request: JudgedRequest,
  circumstances: Circumstances,
  nowMs: number,
): Verdict {
  const deadlineAtMs = request.firstTokenDeadlineAtMs;
  const picked = pickReplica(
    {
      replicas: circumstances.replicas,
      excludedReplicaIds: request.offer.excludedReplicaIds,
      promptTokens: request.promptTokens,
      budgetMs: deadlineAtMs - nowMs,
    },
    nowMs,
    circumstances.random,
  );
  if (picked.kind === "infeasible") {
    return { kind: "reject", reason: "infeasible", predictedWaitMs: picked.predictedWaitMs };
  }
  if (picked.kind === "none") return awaitReplica(request, circumstances, nowMs);
  if (picked.kind === "picked" && circumstances.canAdmit) {
    return { kind: "admit", replica: picked.replica };
  }
  // Waits until the first whole millisecond at which the prediction no longer fits.
  const lateAtMs = Math.floor(deadlineAtMs - picked.predictedWaitMs) + 1;
  return {
    kind: "wait",
    recheckAtMs: Math.min(deadlineAtMs, lateAtMs),
    predictedWaitMs: picked.predictedWaitMs,
  };
}

/** Waits for a replica to dial in while a new pool relearns, if there is one to expect. */
function awaitReplica(
  request: JudgedRequest,
  { replicas, relearnUntilMs }: Circumstances,
  nowMs: number,
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
