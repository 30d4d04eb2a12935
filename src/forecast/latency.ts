import type { ReplicaLoad } from "../replicas/replica-load.ts";
import { KEPT_TARGET_RATIO, PREFILL_TOKENS_MIN } from "../step-cost/kept-gaps.ts";
import { attendedPairsOf } from "../step-cost/step-model.ts";

/** What a forecast has to know of a request. */
export interface ForecastRequest {
  readonly promptTokens: number;
  /** Of the prompt, those whose KV the replica is believed to hold. */
  readonly cachedTokens: number;
  /** Expected, not the limit. */
  readonly outputTokens: number;
}

/** Tokens to compute, and the pairs of one of them and one that it attends to. */
export interface Prefill {
  readonly tokens: number;
  readonly pairs: number;
}

/** What a request waits for on a replica before its prefill may begin; mostly 0. */
export interface ForecastWaits {
  readonly slotMs: number;
  readonly kvMs: number;
}

/** How a request would fare on a replica, in the mean: bounds are made of it by calibration. */
export interface LatencyForecast {
  /** From the dispatch to the first token. */
  readonly ttftMs: number;
  /** Of this request once it decodes. */
  readonly tpotMs: number;
  /** Of a step that only decodes, once this request does: the pace that no pacing of prefill can better. */
  readonly decodeStepMs: number;
  /** What those that decode there already come to see while it is prefilled among them. */
  readonly residentsTpotMs: number;
  /** The longest gap that this request's prefill opens in the answers of others, or others' in its own. */
  readonly longestStepMs: number;
  /** KV tokens if everybody there, this request too, came to its end at the same instant. */
  readonly kvPeakTokens: number;
}

/** Prefill takes no more of a step's time than this, or a decode would never end. */
const PREFILL_TIME_RATIO_MAX = 0.95;
/** Tokens that a resident is taken to have before it at the least: fewer come almost at once. */
const RESIDENT_TOKENS_MIN = 64;

/**
 * Forecasts one request on one replica in closed form, about a hundred operations and one object.
 *
 * TTFT: as many steps as it takes to compute what waits and then this prompt, in what decodes leave of
 * a step's tokens, and half a step until the next one begins (prefill throughput with chunking,
 * Sarathi-Serve, OSDI'24). TPOT: a step of decodes, slowed by prefill as a processor shared with it:
 * 1 / (1 − u). Of a backlog it takes that as much is going to follow.
 */
export function forecastLatency(
  request: ForecastRequest,
  load: ReplicaLoad,
  waits: ForecastWaits,
): LatencyForecast {
  const { step, speedRatio } = load;
  const { promptTokens, cachedTokens, outputTokens } = request;
  const { tokens, pairs } = prefillOf(request);
  const decodes = Math.min(load.sequences, load.sequencesMax);
  const kvTokens = Math.min(load.kvTokens, load.kvTokensMax);
  const decodesMs = decodeStepMs(load, decodes, kvTokens);

  const queuedTokens = load.prefillTokens + tokens;
  const queuedPairs = load.prefillPairs + pairs;
  const prefillMs = step.tokenMs * queuedTokens + step.attendedPairMs * queuedPairs;
  const roomTokens = prefillRoomTokens(load, decodes, decodesMs, prefillMs / queuedTokens);
  const steps = Math.ceil(queuedTokens / roomTokens);
  const ownSteps = Math.ceil(tokens / roomTokens);
  const boundaryMs = load.sequences > 0 || load.prefillTokens > 0 ? decodesMs / 2 : 0;
  const ownMs =
    step.sequenceMs * ownSteps +
    step.kvTokenMs * (ownSteps * cachedTokens + (tokens * (ownSteps + 1)) / 2);
  const ttftMs = speedRatio * (boundaryMs + steps * decodesMs + prefillMs + ownMs);

  const besideMs = decodeStepMs(
    load,
    Math.min(decodes + 1, load.sequencesMax),
    Math.min(kvTokens + promptTokens + outputTokens / 2, load.kvTokensMax),
  );
  const stepMs = speedRatio * besideMs;
  // An engine that keeps a gap has no step with prefill that is longer, so that no mean is either.
  const keptMs = Math.max(stepMs, KEPT_TARGET_RATIO * load.keptTbtMs);
  const tpotMs = Math.min(keptMs, stepMs / (1 - prefillTimeRatio(load)));
  return {
    ttftMs: waits.slotMs + waits.kvMs + ttftMs,
    tpotMs,
    decodeStepMs: stepMs,
    residentsTpotMs: Math.min(
      keptMs,
      Math.max(tpotMs, stepMs + (speedRatio * prefillMs) / residentTokens(load)),
    ),
    longestStepMs:
      load.keptTbtMs < Infinity
        ? speedRatio * besideMs
        : speedRatio * besideMs +
          (speedRatio * prefillMs * Math.min(queuedTokens, roomTokens)) / queuedTokens,
    kvPeakTokens: load.kvTokensExpected + promptTokens + outputTokens,
  };
}

/** The TTFT of a request on the same replica if nothing else were there. */
export function idleTtftMs(request: ForecastRequest, load: ReplicaLoad): number {
  const { step, speedRatio, batchTokensMax } = load;
  const { tokens, pairs } = prefillOf(request);
  const steps = Math.ceil(tokens / batchTokensMax);
  return (
    speedRatio *
    (steps * (step.fixedMs + step.sequenceMs) +
      step.tokenMs * tokens +
      step.attendedPairMs * pairs +
      step.kvTokenMs * (steps * request.cachedTokens + (tokens * (steps + 1)) / 2))
  );
}

/**
 * True where the KV fits even if everybody came to its end at the same instant. Where it is false the
 * peak is lower still, since some end before others: `peakKvTokens` tells.
 */
export function kvFitsQuickly(
  forecast: LatencyForecast,
  load: ReplicaLoad,
  usableRatio: number,
): boolean {
  return forecast.kvPeakTokens <= usableRatio * load.kvTokensMax;
}

/** What is computed of a prompt. Also of one that is wholly cached its last token: the first output needs it. */
export function prefillOf({ promptTokens, cachedTokens }: ForecastRequest): Prefill {
  const tokens = Math.max(1, promptTokens - cachedTokens);
  return { tokens, pairs: attendedPairsOf(Math.max(0, promptTokens - tokens), tokens) };
}

/** A step of so many decodes, at nominal speed. A decoded token attends to all of its context. */
function decodeStepMs({ step }: ReplicaLoad, decodes: number, kvTokens: number): number {
  return (
    step.fixedMs +
    (step.sequenceMs + step.tokenMs) * decodes +
    (step.kvTokenMs + step.attendedPairMs) * kvTokens
  );
}

/** Tokens of prefill in one step beside the decodes; at least 1. */
function prefillRoomTokens(
  load: ReplicaLoad,
  decodes: number,
  decodesMs: number,
  prefillTokenMs: number,
): number {
  const roomTokens = Math.max(1, load.batchTokensMax - decodes);
  if (load.keptTbtMs === Infinity) return roomTokens;
  const roomMs = (KEPT_TARGET_RATIO * load.keptTbtMs) / load.speedRatio - decodesMs;
  // A target that decodes alone would miss is not kept: the engine does not hold prefill back for it.
  if (roomMs < 0 || prefillTokenMs === 0) return roomTokens;
  const keptTokens = Math.max(PREFILL_TOKENS_MIN, Math.floor(roomMs / prefillTokenMs));
  return Math.min(roomTokens, keptTokens);
}

function prefillTimeRatio(load: ReplicaLoad): number {
  return Math.min(PREFILL_TIME_RATIO_MAX, load.prefillTimeRatio);
}

/** What those who are there have before them in the mean: over so many tokens a stall is spread. */
function residentTokens({ kvTokens, kvTokensExpected, sequences }: ReplicaLoad): number {
  const leftTokens = (kvTokensExpected - kvTokens) / Math.max(1, sequences);
  return Math.max(RESIDENT_TOKENS_MIN, leftTokens);
}
