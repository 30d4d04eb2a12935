import type { Resident } from "../replicas/replica-load.ts";
import type { OutputLengths } from "./output-lengths.ts";
import type { SurvivalCurve } from "./survival-curve.ts";

/** How far a resident is and how long it may go on. */
export interface ResidentLife {
  readonly curve: SurvivalCurve;
  /** 0 for one that has no token yet. */
  readonly soFarTokens: number;
  readonly promptTokens: number;
  readonly outputTokensMax: number;
}

/** When, and how fast residents get their tokens. */
export interface Pace {
  readonly nowMs: number;
  readonly tpotMs: number;
}

/** Reckons from the first token's time how many tokens each resident has by now. */
export function residentLives(
  residents: Iterable<Resident>,
  lengths: OutputLengths,
  { nowMs, tpotMs }: Pace,
): ResidentLife[] {
  const lives: ResidentLife[] = [];
  for (const resident of residents) {
    const { firstTokenAtMs, outputTokensMax = Infinity } = resident;
    const tokens =
      firstTokenAtMs === undefined ? 0 : 1 + Math.max(0, nowMs - firstTokenAtMs) / tpotMs;
    lives.push({
      curve: lengths.curveOf(resident),
      // It is there still, so it has not come to its limit, however fast tokens were in the past.
      soFarTokens: Math.min(tokens, Math.max(0, outputTokensMax - 1)),
      promptTokens: resident.promptTokens,
      outputTokensMax,
    });
  }
  return lives;
}
