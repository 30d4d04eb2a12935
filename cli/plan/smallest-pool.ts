import type { PlannedPool } from "./plan-pool.ts";

/** What was tried in search of the smallest pool. */
export interface PoolSearch {
  /** By size. */
  readonly tried: readonly PlannedPool[];
  /** `undefined`: none up to the largest keeps every promise. */
  readonly smallest: PlannedPool | undefined;
}

/**
 * Finds the smallest pool that keeps every promise by halving: a larger pool is taken to keep what a smaller
 * one does. The one below the answer is among those tried, so the answer is the smallest by what was seen.
 */
export function smallestPool(
  bounds: { readonly min: number; readonly max: number },
  plan: (replicas: number) => PlannedPool,
): PoolSearch {
  const tried = new Map<number, PlannedPool>();
  const isKeptBy = (replicas: number): boolean => {
    const pool = tried.get(replicas) ?? plan(replicas);
    tried.set(replicas, pool);
    return pool.isKept;
  };
  let { min, max } = bounds;
  // Doubling first: most pools are far smaller than the bound, and large ones take long.
  let upper = min;
  while (upper < max && !isKeptBy(upper)) {
    min = upper + 1;
    upper = Math.min(max, 2 * upper);
  }
  max = upper;
  while (min < max) {
    const middle = Math.floor((min + max) / 2);
    if (isKeptBy(middle)) max = middle;
    else min = middle + 1;
  }
  const found = isKeptBy(min) ? tried.get(min) : undefined;
  return {
    tried: [...tried.values()].toSorted((a, b) => a.replicas - b.replicas),
    smallest: found,
  };
}
