import type { SloTargets } from "./targets.ts";

/** Answers with fewer tokens have no TPOT: a mean of so few gaps says little. */
export const TPOT_TOKENS_MIN = 16;
/** What short answers may take on top of TPOT × gaps. */
const SHORT_DECODE_GRACE_MS = 250;
/** How far a token may be behind the even pace of its stream before it counts as late. */
export const DELIVERY_SLACK_MS = 1_000;

/** A stream that pauses so many times as long as its pace allows has stalled. */
const STALL_RATIO = 4;
/** A shorter pause may be one long prompt of somebody else's. */
const STALL_MS_MIN = 500;

/**
 * Returns after how long a pause a stream counts as stalled. Its pace is what was promised, or what
 * is foreseen on a replica that is slower than that.
 */
export function stallMarkMs({ tpot }: SloTargets, foreseenTpotMs: number): number {
  const tpotMs = Math.max(tpot?.limitMs ?? 0, foreseenTpotMs);
  return Math.max(STALL_MS_MIN, STALL_RATIO * tpotMs);
}

/** Returns how long the first token of a prompt may take; `Infinity` when nothing is promised. */
export function ttftLimitMs({ ttft }: SloTargets, promptTokens: number): number {
  if (ttft === undefined) return Number.POSITIVE_INFINITY;
  const limitMs = ttft.limitMs + (ttft.perPromptTokenMs ?? 0) * promptTokens;
  return Math.min(limitMs, ttft.atMostMs ?? limitMs);
}

/**
 * Returns the gap between tokens within which both TPOT and TBT hold, which an engine can pace its prefill
 * by; `Infinity` when neither is promised. A promise on the mean is kept if every gap keeps it.
 */
export function paceMs({ tpot, tbtMaxMs }: SloTargets): number {
  return Math.min(tpot?.limitMs ?? Infinity, tbtMaxMs ?? Infinity);
}

/**
 * Returns how long all of an answer's tokens but the first may take; `Infinity` when no TPOT is
 * promised. Short answers get a grace, since one step that is shared with a prefill outweighs their mean.
 */
export function decodeLimitMs({ tpot }: SloTargets, outputTokens: number): number {
  if (tpot === undefined) return Number.POSITIVE_INFINITY;
  const graceMs = outputTokens < TPOT_TOKENS_MIN ? SHORT_DECODE_GRACE_MS : 0;
  return tpot.limitMs * Math.max(0, outputTokens - 1) + graceMs;
}

/**
 * Returns how long a whole answer may take: its E2E target or, where there is none, what TTFT and
 * TPOT together imply; `Infinity` when neither is promised.
 */
export function e2eLimitMs(
  targets: SloTargets,
  promptTokens: number,
  outputTokens: number,
): number {
  if (targets.e2e !== undefined) return targets.e2e.limitMs;
  if (targets.tpot === undefined) return Number.POSITIVE_INFINITY;
  return ttftLimitMs(targets, promptTokens) + targets.tpot.limitMs * Math.max(0, outputTokens - 1);
}
