import type { EngineSignals } from "../protocol/engine-signals.ts";
import type { ReplicaState } from "./replica-state.ts";

/** A replica whose last report is older may be dead or cut off, so nothing is sent to it. */
export const REPORT_AGE_MS_MAX = 2_000;

/** What a server said that is not ours is believed for so long: it is asked twice in that time. */
export const SIGNALS_AGE_MS_MAX = 2_500;

/** Why a replica gets requests, or does not: only a `ready` one does, if its health allows it. */
export type ReplicaCondition =
  | "ready"
  | "silent"
  | "draining"
  | "unready"
  | "disconnected"
  | "removed";

/** In which condition a replica is at an instant. */
export function conditionOf(state: ReplicaState, nowMs: number): ReplicaCondition {
  const { isRemoved, isConnected, isDrained = false, report, settings } = state;
  if (isRemoved) return "removed";
  if (settings.plain !== undefined) {
    if (isDrained) return "draining";
    // Where nobody says it, requests show whether it is there.
    return freshSignalsOf(state, nowMs)?.isReady === false ? "unready" : "ready";
  }
  if (!isConnected) return "disconnected";
  if (report === undefined || reportAgeMsOf(state, nowMs) > REPORT_AGE_MS_MAX) return "silent";
  return report.draining || isDrained ? "draining" : "ready";
}

/**
 * How old what is known of a replica is: its last report, and `Infinity` before the first. Of one that
 * never reports our own dispatches are all there is to know, and those are never old.
 */
export function reportAgeMsOf(state: ReplicaState, nowMs: number): number {
  const { report, reportAtMs, settings } = state;
  if (settings.plain !== undefined) return 0;
  return report === undefined ? Infinity : Math.max(0, nowMs - reportAtMs);
}

/** What a server that is not ours says of itself; `undefined` where nothing lately: that is unknown, not idle. */
export function freshSignalsOf(
  { signals }: Pick<ReplicaState, "signals">,
  nowMs: number,
): EngineSignals | undefined {
  if (signals === undefined || nowMs - signals.atMs > SIGNALS_AGE_MS_MAX) return undefined;
  return signals.said;
}
