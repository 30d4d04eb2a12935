import type { ReplicaLoad } from "../replicas/replica-load.ts";

/**
 * By how much a request's TPOT target is tighter than any that binds a replica already, in [0, 1]: from then
 * on it could hold fewer sequences.
 */
export function tighteningRatioOf(
  tpotLimitMs: number,
  { sequences, tightestTpotMs }: Pick<ReplicaLoad, "sequences" | "tightestTpotMs">,
): number {
  if (sequences === 0 || tpotLimitMs === Infinity || tightestTpotMs <= tpotLimitMs) return 0;
  return tightestTpotMs === Infinity ? 1 : 1 - tpotLimitMs / tightestTpotMs;
}
