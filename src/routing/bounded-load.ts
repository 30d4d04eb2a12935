import type { Candidate } from "./candidate.ts";

/** How far above its fair share of a pool's requests a replica may be. */
const LOAD_BOUND_RATIO = 1.25;

/** Replicas whose capacities differ from the mean by less count as equal: so much is noise of what was measured. */
const EQUAL_RATIO = 0.2;

type Loaded = Pick<Candidate, "sequences" | "capacity" | "capacityRatio">;

/** What the ceilings of a pool are computed from. */
export interface PoolLoad {
  readonly sequences: number;
  readonly capacity: number;
  readonly meanCapacity: number;
}

/** What a replica counts for at present: less than it can do while it starts slowly. */
export function capacityOf(replica: Loaded): number {
  return replica.capacity * replica.capacityRatio;
}

/** Sums up what the replicas have and what they count for. */
export function poolLoad(replicas: readonly Loaded[]): PoolLoad {
  let sequences = 0;
  let measured = 0;
  for (const replica of replicas) {
    sequences += replica.sequences;
    measured += replica.capacity;
  }
  const meanCapacity = measured / replicas.length;
  let capacity = 0;
  for (const replica of replicas) capacity += evened(replica, meanCapacity);
  return { sequences, capacity, meanCapacity };
}

/**
 * Requests that a replica may have once it is given another: ⌈1.25 · (total + 1) · its share of the
 * capacity⌉, which is ⌈1.25 · (total + 1) / n⌉ where all are equal.
 *
 * Consistent hashing with bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2018): whatever makes a
 * replica attractive, be it a cached prefix or a wrong forecast, draws no more than this to it. The
 * ceilings add up to more than the total, so one replica is always below its own.
 */
export function loadCeiling(replica: Loaded, pool: PoolLoad): number {
  const share = evened(replica, pool.meanCapacity) / pool.capacity;
  return Math.ceil(LOAD_BOUND_RATIO * (pool.sequences + 1) * share);
}

/** Whether a replica could be given another request without rising above its ceiling. */
export function isBelowCeiling(replica: Loaded, pool: PoolLoad): boolean {
  return replica.sequences < loadCeiling(replica, pool);
}

/** What a replica counts for at present, where hardly different is equal. */
function evened({ capacity, capacityRatio }: Loaded, meanCapacity: number): number {
  const isUsual = Math.abs(capacity - meanCapacity) < EQUAL_RATIO * meanCapacity;
  return capacityRatio * (isUsual ? meanCapacity : capacity);
}
