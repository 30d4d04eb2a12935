import type { ReplicaHello, ReplicaReport } from "../protocol/engine-api.ts";
import { KEPT_TARGET_RATIO, PREFILL_TOKENS_MIN } from "../step-cost/kept-gaps.ts";
import type { StepCoefficients } from "../step-cost/step-model.ts";
import type { ReplicaLoad } from "./replica-load.ts";
import type { Residents } from "./residents.ts";

/** What a load is projected from. */
export interface ProjectedFrom {
  readonly hello: ReplicaHello;
  readonly report: ReplicaReport;
  readonly elapsedMs: number;
  readonly step: StepCoefficients;
  readonly speedRatio: number;
  readonly residents: Residents;
  /** False: what was sent since the report is not looked at. */
  readonly countsLedger: boolean;
  /** Requests of the report that hold no lease of ours. */
  readonly strangers: number;
  /** Requests of ours that the report does not have any more, although nobody told us of their end. */
  readonly missing: number;
  /** Of requests that were reported and have ended since. */
  readonly releasedKvTokens: number;
  /** Smoothed over more than one report. */
  readonly prefillTimeRatio: number;
}

/**
 * Carries a report forward to the present: what must be computed by now is no load any more, and what we
 * sent since is. Without the second a burst within one heartbeat lands whole on the replica that last
 * looked idle; without the first a replica looks as busy as it was until it says otherwise.
 */
export function projectLoad(from: ProjectedFrom): ReplicaLoad {
  const { hello, report, residents, speedRatio, step } = from;
  const { ledger } = residents;
  const pace = paceOf(from);
  const uncachedTokens = report.queuedUncachedTokens;
  const leftRatio = pace.prefillMs > 0 ? Math.max(0, 1 - from.elapsedMs / pace.prefillMs) : 1;
  const leftTokens = Math.max(stuckTokens(from), uncachedTokens * leftRatio);
  const leftPairs =
    uncachedTokens > 0 ? report.queuedAttendedPairs * (leftTokens / uncachedTokens) : 0;
  const ledgerRatio = from.countsLedger ? 1 : 0;
  const reportedKvTokens = kvTokensSince(from, pace);
  return {
    step,
    speedRatio,
    batchTokensMax: hello.batchTokensMax,
    sequencesMax: hello.sequencesMax,
    keepsTbt: hello.keepsTbt,
    keptTbtMs: keptTbtMsOf(from),
    prefillTokens: leftTokens + ledgerRatio * ledger.prefillTokens,
    prefillPairs: leftPairs + ledgerRatio * ledger.prefillPairs,
    sequences: Math.max(
      0,
      residents.reported.requests + from.strangers - from.missing + ledgerRatio * ledger.requests,
    ),
    kvTokens: reportedKvTokens + ledgerRatio * ledger.promptTokens,
    kvTokensMax: report.blockCount * report.blockTokens,
    kvTokensExpected:
      expectedKvTokens(from, reportedKvTokens) + ledgerRatio * ledger.expectedTokens,
    prefillTimeRatio: from.prefillTimeRatio,
    tightestTpotMs: residents.tightestTpotMs,
    tightestTbtMs: residents.tightestTbtMs,
  };
}

/** What the engine paces prefill by: the tightest target that it was told, which may be a mean one. */
function keptTbtMsOf({ hello, report }: ProjectedFrom): number {
  return hello.keepsTbt ? (report.tightestTbtMs ?? Infinity) : Infinity;
}

interface Pace {
  /** How long all the prefill of the report takes, and how many steps. */
  readonly prefillMs: number;
  readonly prefillSteps: number;
  /** How long a step takes that only decodes. */
  readonly decodeStepMs: number;
}

/** Every step costs what its decodes cost; so many steps are needed as prefill has to be cut into. */
function paceOf(from: ProjectedFrom): Pace {
  const { hello, report, step, speedRatio } = from;
  const uncachedTokens = report.queuedUncachedTokens;
  const sequences = Math.min(report.runningRequests, hello.sequencesMax);
  const baseMs =
    speedRatio *
    (step.fixedMs + step.sequenceMs * sequences + step.kvTokenMs * report.runningKvTokens);
  if (uncachedTokens === 0) return { prefillMs: 0, prefillSteps: 0, decodeStepMs: baseMs };
  const workMs =
    speedRatio * (step.tokenMs * uncachedTokens + step.attendedPairMs * report.queuedAttendedPairs);
  let chunkTokens = Math.max(1, hello.batchTokensMax - sequences);
  const keptTbtMs = keptTbtMsOf(from);
  if (keptTbtMs < Infinity && workMs > 0) {
    const roomMs = KEPT_TARGET_RATIO * keptTbtMs - baseMs;
    // A target that decodes alone would miss is lost already, and the engine does not look at it.
    const allowedTokens = roomMs < 0 ? Infinity : (roomMs * uncachedTokens) / workMs;
    chunkTokens = Math.min(chunkTokens, Math.max(PREFILL_TOKENS_MIN, allowedTokens));
  }
  const prefillSteps = Math.ceil(uncachedTokens / chunkTokens);
  return { prefillMs: prefillSteps * baseMs + workMs, prefillSteps, decodeStepMs: baseMs };
}

function stepsSince({ prefillMs, prefillSteps, decodeStepMs }: Pace, elapsedMs: number): number {
  if (elapsedMs < prefillMs) return (elapsedMs / prefillMs) * prefillSteps;
  return prefillSteps + (decodeStepMs > 0 ? (elapsedMs - prefillMs) / decodeStepMs : 0);
}

/**
 * Prefill of requests that wait for a sequence while all are taken, or for KV while not even
 * an average one of them fits: no time that passes computes it.
 */
function stuckTokens({ hello, report }: ProjectedFrom): number {
  const { queuedRequests, waitingKvTokens, blockCount, usedBlocks, blockTokens } = report;
  if (queuedRequests === 0) return 0;
  const freeTokens = (blockCount - usedBlocks) * blockTokens;
  const isStuck =
    report.runningRequests >= hello.sequencesMax || freeTokens < waitingKvTokens / queuedRequests;
  return isStuck ? Math.min(report.queuedUncachedTokens, waitingKvTokens) : 0;
}

/** KV of those in the report: each that decodes has grown by a token a step, and some have ended. */
function kvTokensSince({ report, elapsedMs, releasedKvTokens }: ProjectedFrom, pace: Pace): number {
  const prefillingTokens = Math.max(0, report.queuedUncachedTokens - report.waitingKvTokens);
  const grownTokens = report.runningRequests * stepsSince(pace, elapsedMs);
  const kvTokens = report.runningKvTokens + report.waitingKvTokens + prefillingTokens;
  return Math.max(0, kvTokens + grownTokens - releasedKvTokens);
}

/**
 * KV of those in the report when all have the output expected of them, each shared block counted once.
 * Of strangers nothing is known, so they count with what they have.
 */
function expectedKvTokens(from: ProjectedFrom, reportedKvTokens: number): number {
  const { report, residents, strangers } = from;
  const usedTokens = report.usedBlocks * report.blockTokens;
  const sharedRatio =
    report.runningKvTokens > 0 ? Math.min(1, usedTokens / report.runningKvTokens) : 1;
  const requests = report.runningRequests + report.queuedRequests;
  const strangersRatio = requests > 0 ? Math.min(1, strangers / requests) : 0;
  const ownTokens = residents.reported.expectedTokens;
  return sharedRatio * Math.max(reportedKvTokens, ownTokens + strangersRatio * reportedKvTokens);
}
