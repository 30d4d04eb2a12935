import { forecastLatency } from "../forecast/latency.ts";
import { isReportLate } from "../replicas/load-view.ts";
import type { Replica } from "../replicas/replica.ts";
import { tellsStepCost } from "../replicas/step-prior.ts";
import { claimedSpeedRatio } from "../replicas/claimed-speed.ts";

const NO_WAITS = { slotMs: 0, kvMs: 0 } as const;
/** An engine that says itself that its steps are so far from its figures is about to correct them. */
const KNOWN_OFF_RATIO = 1.25;

/**
 * The pace that a replica's own figures foretell of an answer now, prefill beside it included. `undefined`
 * where it tells nothing of its steps, nothing fresh, or that they are not as it tells.
 */
export function claimedPaceMs(
  replica: Replica,
  { promptTokens, outputTokens }: { readonly promptTokens: number; readonly outputTokens: number },
  nowMs: number,
): number | undefined {
  const { plain, lastReport, state } = replica;
  if (plain !== undefined || lastReport === undefined || !tellsStepCost(lastReport)) {
    return undefined;
  }
  if (Math.abs(Math.log(lastReport.speedRatio)) > Math.log(KNOWN_OFF_RATIO)) return undefined;
  // An old report is believed with caution, which is none of the replica's figures.
  if (isReportLate(replica.reportAgeMs(nowMs))) return undefined;
  const request = { promptTokens, cachedTokens: promptTokens, outputTokens };
  const { tpotMs } = forecastLatency(request, replica.loadAt(nowMs), NO_WAITS);
  return tpotMs / claimedSpeedRatio(state.claimedSpeed);
}
