import type { CostReference } from "../forecast/request-cost.ts";
import { referenceSequences, requestCostMs } from "../forecast/request-cost.ts";
import type { ReplicaLoad } from "../replicas/replica-load.ts";

/** What costs are reckoned in, and how much of it the pool has. */
export interface Capacity {
  readonly reference: CostReference;
  /** GPU-ms of the reference replica that pass in a millisecond: the number of replicas, if all are alike. */
  readonly rateMsPerMs: number;
}

/** What of a replica's load says how fast it is. */
export type ReplicaSpeed = Pick<ReplicaLoad, "step" | "speedRatio" | "sequencesMax">;

/** An ordinary request, by which replicas are compared. */
export const NOMINAL_REQUEST = { promptTokens: 512, cachedTokens: 0, outputTokens: 128 } as const;

/**
 * Measures a pool by its fastest replica: the others count for as much of it as they are as fast, so
 * that a guaranteed share of the pool is the same work whatever it is made of. `undefined` while no
 * replica is ready.
 */
export function capacityOf(loads: readonly ReplicaSpeed[]): Capacity | undefined {
  let reference: CostReference | undefined;
  let nominalMs = Infinity;
  for (const load of loads) {
    const candidate = referenceOf(load);
    const costMs = requestCostMs(NOMINAL_REQUEST, candidate);
    if (costMs < nominalMs) [reference, nominalMs] = [candidate, costMs];
  }
  if (reference === undefined) return undefined;
  let rateMsPerMs = 0;
  for (const load of loads) rateMsPerMs += nominalMs / nominalCostMs(load);
  return { reference, rateMsPerMs };
}

/** How much a replica counts for beside others: nominal requests a millisecond. */
export function nominalRate(load: ReplicaSpeed): number {
  return 1 / nominalCostMs(load);
}

function nominalCostMs(load: ReplicaSpeed): number {
  return load.speedRatio * requestCostMs(NOMINAL_REQUEST, referenceOf(load));
}

function referenceOf({ step, sequencesMax }: ReplicaSpeed): CostReference {
  return { step, referenceSequences: referenceSequences(sequencesMax) };
}
