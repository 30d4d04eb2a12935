import { assert } from "../base/assert.ts";
import type { Random } from "../base/random.ts";
import type { ReplicaId } from "../protocol/ids.ts";
import type { Replica } from "../replicas/replica.ts";

/** Which replica a request goes to, or what stands in the way. */
export type ReplicaPick =
  | { readonly kind: "picked"; readonly replica: Replica; readonly predictedWaitMs: number }
  /** Some replica could answer in time, but no such replica has a free slot. */
  | { readonly kind: "full"; readonly predictedWaitMs: number }
  /** Every replica would answer too late. */
  | { readonly kind: "infeasible"; readonly predictedWaitMs: number }
  /** There is no replica to ask. */
  | { readonly kind: "none" };

/** What a replica is picked for. */
export interface PickRequest {
  readonly excludedReplicaIds: readonly ReplicaId[];
  readonly promptTokens: number;
  /** What is left until the first token is due. */
  readonly budgetMs: number;
}

/** Among which replicas, and when. */
export interface PickAmong {
  readonly replicas: Iterable<Replica>;
  readonly nowMs: number;
  readonly random: Random;
}

interface Candidate {
  readonly replica: Replica;
  readonly predictedWaitMs: number;
}

/**
 * Picks the replica with the least predicted wait among those that are ready, not excluded, in
 * time, and have a free slot.
 *
 * A request can start only at a step's boundary, so forecasts less than a step apart say the same.
 * Among those the replica with the fewest requests wins, and equals are drawn by chance: otherwise
 * a measurement that is a hair faster would draw all traffic to one replica.
 */
export function pickReplica(
  request: PickRequest,
  { replicas, nowMs, random }: PickAmong,
): ReplicaPick {
  const candidates = candidatesOf(request, replicas, nowMs);
  if (candidates.length === 0) return { kind: "none" };
  const predictedWaitMs = leastWaitMs(candidates);
  if (predictedWaitMs > request.budgetMs) return { kind: "infeasible", predictedWaitMs };

  const open = candidates.filter(
    (candidate) => candidate.replica.freeSlots > 0 && candidate.predictedWaitMs <= request.budgetMs,
  );
  if (open.length === 0) return { kind: "full", predictedWaitMs };
  return { kind: "picked", ...leastLoaded(withinOneStep(open), random) };
}

/** Returns whether a ready replica could take a request now, without asking all the others. */
export function couldTake(replica: Replica, request: PickRequest): boolean {
  return (
    replica.freeSlots > 0 &&
    !request.excludedReplicaIds.includes(replica.replicaId) &&
    replica.predictedWaitMs(request.promptTokens) <= request.budgetMs
  );
}

function candidatesOf(
  { excludedReplicaIds, promptTokens }: PickRequest,
  replicas: Iterable<Replica>,
  nowMs: number,
): Candidate[] {
  const candidates: Candidate[] = [];
  for (const replica of replicas) {
    if (replica.stateAt(nowMs) !== "ready") continue;
    if (excludedReplicaIds.includes(replica.replicaId)) continue;
    candidates.push({ replica, predictedWaitMs: replica.predictedWaitMs(promptTokens) });
  }
  return candidates;
}

function leastWaitMs(candidates: readonly Candidate[]): number {
  return candidates.reduce(
    (least, { predictedWaitMs }) => Math.min(least, predictedWaitMs),
    Infinity,
  );
}

function withinOneStep(candidates: readonly Candidate[]): Candidate[] {
  const leastMs = leastWaitMs(candidates);
  return candidates.filter(
    ({ replica, predictedWaitMs }) =>
      predictedWaitMs <= leastMs + (replica.lastReport?.stepMs ?? 0),
  );
}

function leastLoaded(candidates: readonly Candidate[], random: Random): Candidate {
  const least = candidates.reduce((low, { replica }) => Math.min(low, replica.loadRatio), Infinity);
  const equals = candidates.filter(({ replica }) => replica.loadRatio === least);
  const drawn = equals[Math.floor(random() * equals.length)];
  assert(drawn !== undefined, "a pick is drawn from at least one candidate");
  return drawn;
}
