import type { PolicyReplica } from "./policy.ts";

/** The replica with the fewest requests among those that have fewer than so many; the first of equals. */
export function leastOutstandingBelow(
  replicas: readonly PolicyReplica[],
  outstandingMax: number,
): PolicyReplica | undefined {
  let least: PolicyReplica | undefined;
  for (const replica of replicas) {
    if (replica.outstanding >= outstandingMax) continue;
    if (least === undefined || replica.outstanding < least.outstanding) least = replica;
  }
  return least;
}
