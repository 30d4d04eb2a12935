import type { PastForecast } from "../forecast/calibration.ts";
import { SHORT_OUTPUT_TOKENS } from "../forecast/forecast-bins.ts";
import type { ReplicaLoad } from "../replicas/replica-load.ts";

/**
 * How far a bound on TPOT is believed, as a multiple of the forecast; a mean over few tokens is off by more. A
 * pace that turned out far longer had met others who came later, and those are kept out by the targets of
 * residents. Believed further, one shock would keep a whole pool idle, with nobody to unlearn it from.
 */
export const TPOT_BELIEVED_RATIO_MAX = 1.6;
const SHORT_TPOT_BELIEVED_RATIO_MAX = 2;
const IDLE_TTFT_BELIEVED_RATIO_MAX = 2;

/** Beside nobody the pace is what was forecast, since its errors are others' prefills. */
export function believedTpotMs(foreseen: PastForecast, { sequences }: ReplicaLoad): number {
  const { predictedMs, boundMs, outputTokens = Infinity } = foreseen;
  if (sequences === 0) return predictedMs;
  const isShort = outputTokens < SHORT_OUTPUT_TOKENS;
  const ratioMax = isShort ? SHORT_TPOT_BELIEVED_RATIO_MAX : TPOT_BELIEVED_RATIO_MAX;
  return Math.min(boundMs, ratioMax * predictedMs);
}

/** On an empty replica there is no queue that a forecast could have missed. */
export function believedTtftMs(
  { predictedMs, boundMs }: PastForecast,
  { sequences }: Pick<ReplicaLoad, "sequences">,
): number {
  return sequences === 0 ? Math.min(boundMs, IDLE_TTFT_BELIEVED_RATIO_MAX * predictedMs) : boundMs;
}

/**
 * Of a bound on TTFT, what is others' doing: all but what the prompt itself would take where nothing else is.
 * `forecastMs` and `idleMs` are the forecasts of both on the replica that decodes.
 */
export function othersTtftMs(
  { predictedMs, boundMs }: PastForecast,
  forecastMs: number,
  idleMs: number,
): number {
  return predictedMs <= 0 ? 0 : (boundMs * Math.max(0, forecastMs - idleMs)) / predictedMs;
}
