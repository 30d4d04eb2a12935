import type { ReplicaState } from "./replica-state.ts";

/** A replica whose last report is older may be dead or cut off, so nothing is sent to it. */
export const REPORT_AGE_MS_MAX = 2_000;

/** Why a replica gets requests, or does not: only a `ready` one does, if its health allows it. */
export type ReplicaCondition = "ready" | "silent" | "draining" | "disconnected" | "removed";

/** In which condition a replica is at an instant. */
export function conditionOf(state: ReplicaState, nowMs: number): ReplicaCondition {
  const { isRemoved, isConnected, report } = state;
  if (isRemoved) return "removed";
  if (!isConnected) return "disconnected";
  if (report === undefined || reportAgeMsOf(state, nowMs) > REPORT_AGE_MS_MAX) return "silent";
  return report.draining ? "draining" : "ready";
}

/** How old a replica's last report is; `Infinity` before the first. */
export function reportAgeMsOf({ report, reportAtMs }: ReplicaState, nowMs: number): number {
  return report === undefined ? Infinity : Math.max(0, nowMs - reportAtMs);
}
