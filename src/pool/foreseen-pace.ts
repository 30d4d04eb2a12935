import type { PastForecast } from "../forecast/calibration.ts";
import type { LatencyForecast } from "../forecast/latency.ts";
import type { ReplicaLoad } from "../replicas/replica-load.ts";
import { KEPT_TARGET_RATIO } from "../step-cost/kept-gaps.ts";
import { believedTpotMs, TPOT_BELIEVED_RATIO_MAX } from "./believed-bounds.ts";

/**
 * What is foreseen of a request's pace. An engine that keeps gaps fits prefill into what decodes leave of
 * them, so that the pace is anything between that of decodes alone and the gap, as there is prefill: of
 * such an engine the decodes are foreseen. What they leave is room for prefill, and shows in TTFT.
 */
export interface ForeseenPace extends PastForecast {
  /** Up to here the engine may stretch the pace; 0 where it keeps no gaps, `Infinity` if it was told none. */
  readonly keptMs: number;
}

/** The pace that bounds are made from. */
export function predictedPaceMs(
  forecast: Pick<LatencyForecast, "tpotMs" | "decodeStepMs">,
  { keepsTbt }: Pick<ReplicaLoad, "keepsTbt">,
): number {
  return keepsTbt ? forecast.decodeStepMs : forecast.tpotMs;
}

/** Up to where the engine stretches the pace of a request that has to keep `paceMs`. */
export function keptPaceMs(paceMs: number, { keepsTbt }: Pick<ReplicaLoad, "keepsTbt">): number {
  return keepsTbt ? KEPT_TARGET_RATIO * paceMs : 0;
}

/**
 * What of a pace has to fit into its target. A target that decodes alone would fill further than the engine
 * keeps it is given up by the engine, so theirs have to fit into what it keeps.
 */
export function decidingPaceMs(boundMs: number, { keepsTbt }: Pick<ReplicaLoad, "keepsTbt">) {
  return keepsTbt ? boundMs / KEPT_TARGET_RATIO : boundMs;
}

/** The slowest that a pace is believed to be, stretched or not. */
export function slowestPaceMs(
  foreseen: ForeseenPace,
  { tpotMs }: Pick<LatencyForecast, "tpotMs">,
  load: ReplicaLoad,
): number {
  const stretchedMs = Math.min(foreseen.keptMs, TPOT_BELIEVED_RATIO_MAX * tpotMs);
  return Math.max(believedTpotMs(foreseen, load), stretchedMs);
}

/**
 * What a pace says of the forecast of decodes: what the engine stretched it by is none of the forecast's
 * errors, and what it stretched further is all of it one. `undefined`: nothing.
 */
export function judgedPaceMs(
  { predictedMs, keptMs }: ForeseenPace,
  actualMs: number,
): number | undefined {
  if (keptMs === 0) return actualMs;
  if (keptMs === Infinity) return undefined;
  return predictedMs + Math.max(0, actualMs - Math.max(predictedMs, keptMs));
}
