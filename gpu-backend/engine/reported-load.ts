import type { ReplicaReport } from "../../src/protocol/engine-api.ts";
import type { EngineLoad } from "./engine-load.ts";
import { fadePrefill, type StepMeasurements } from "./step-meter.ts";

/** All of a report but what its connection counts. */
export type ReportedState = Omit<ReplicaReport, "kind" | "sequence" | "cached">;

/** What a report says beside load and speed. */
export interface ReportedLink {
  readonly lastDispatch: ReplicaReport["lastDispatch"];
  readonly draining: boolean;
}

/**
 * Puts in a report's words what an engine has on its hands and how fast its steps are. `nowMs` is on
 * the meter's clock: while nothing is there, no step comes to tell that prefill takes no time any more.
 */
export function toReportedState(
  load: EngineLoad,
  measured: StepMeasurements,
  nowMs: number,
  link: ReportedLink,
): ReportedState {
  const isIdle = load.runningRequests + load.queuedRequests === 0;
  const idleMs = isIdle ? Math.max(0, nowMs - (measured.prefillMeasuredAtMs ?? nowMs)) : 0;
  return {
    queuedRequests: load.queuedRequests,
    runningRequests: load.runningRequests,
    usedBlocks: load.usedBlocks,
    blockTokens: load.blockTokens,
    blockCount: load.blockCount,
    queuedUncachedTokens: load.queuedUncachedTokens,
    queuedAttendedPairs: load.queuedAttendedPairs,
    runningKvTokens: load.runningKvTokens,
    waitingKvTokens: load.waitingKvTokens,
    step: measured.step,
    speedRatio: measured.speedRatio,
    prefillTimeRatio: fadePrefill(measured.prefillTimeRatio, idleMs),
    prefillTokensPerSecond: measured.prefillTokensPerSecond,
    stepMs: measured.stepMs,
    tightestTbtMs: load.tightestTbtMs ?? null,
    lastDispatch: link.lastDispatch,
    draining: link.draining,
  };
}
