import { toColumns } from "../verbs.ts";
import type { EnginePoint } from "./engine-point.ts";
import type { FittedProfile } from "./fit-profile.ts";

/** Writes for people how far a profile is off what was measured. */
export function reportProfile({
  points,
  meanErrorRatio,
  worstErrorRatio,
}: FittedProfile): string[] {
  const rows = points.map((point) => [
    stepText(point),
    point.stepMs.toFixed(2),
    point.toldMs.toFixed(2),
    percent(point.errorRatio),
  ]);
  return [
    ...toColumns([["step", "measured, ms", "told, ms", "error"], ...rows]),
    "",
    `Mean error ${percent(meanErrorRatio)}, worst ${percent(worstErrorRatio)}`,
  ];
}

/** One thing that was measured, as progress. */
export function pointText(point: EnginePoint): string {
  return `${stepText(point)}: ${point.stepMs.toFixed(2)} ms`;
}

function stepText(point: EnginePoint): string {
  return point.kind === "prefill"
    ? `prompt of ${point.promptTokens}`
    : `${point.sequences} answers, ${Math.round(point.kvTokens)} tokens of KV`;
}

const percent = (ratio: number) => `${(100 * ratio).toFixed(1)}%`;
