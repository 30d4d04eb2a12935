import type { AnswerEnd } from "./answer-end.ts";

/** What became of one request of a load; instants and durations in ms, on the load's own clock. */
export interface LoadRecord {
  readonly index: number;
  readonly tenantIndex: number;
  /** When it was due; all durations count from here, whenever it was sent. */
  readonly dueAtMs: number;
  readonly sentAtMs: number;
  readonly endedAtMs: number;
  readonly end: AnswerEnd;
  /** Absent: no output came. */
  readonly ttftMs: number | undefined;
  /** Between chunks with output, in order. */
  readonly gapsMs: readonly number[];
  readonly inputTokens: number;
  readonly outputTokens: number;
}

/** From when it was due to its last chunk. */
export function e2eMsOf({ ttftMs, gapsMs }: LoadRecord): number {
  return (ttftMs ?? Infinity) + decodeMsOf({ gapsMs });
}

/** The mean gap between tokens behind the first; 0 of a single token, as vLLM has it. */
export function tpotMsOf({ gapsMs, outputTokens }: LoadRecord): number {
  return outputTokens > 1 ? decodeMsOf({ gapsMs }) / (outputTokens - 1) : 0;
}

function decodeMsOf({ gapsMs }: Pick<LoadRecord, "gapsMs">): number {
  return gapsMs.reduce((sum, gapMs) => sum + gapMs, 0);
}
