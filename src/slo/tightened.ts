import type { SloTargets } from "./targets.ts";

/** Latencies that one request asks to keep within, beside what its class promises. */
export interface Tightening {
  readonly ttftMs?: number;
  readonly tpotMs?: number;
}

/** Of a wish about a target that the class does not have. */
const PERCENTILE_RATIO = 0.99;

/**
 * Returns targets that keep a request's own wishes as well. They only ever become tighter: where no wish is
 * tighter than its target, the very same targets are returned.
 */
export function tightened(targets: SloTargets, { ttftMs, tpotMs }: Tightening): SloTargets {
  const ttft = ttftMs === undefined ? undefined : tighterTtft(targets.ttft, ttftMs);
  const isPaced = tpotMs !== undefined && tpotMs < (targets.tpot?.limitMs ?? Infinity);
  if (ttft === undefined && !isPaced) return targets;
  return {
    ...targets,
    ...(ttft !== undefined && { ttft }),
    ...(isPaced && {
      tpot: { percentileRatio: PERCENTILE_RATIO, ...targets.tpot, limitMs: tpotMs },
    }),
  };
}

/** `undefined`: the wish is not tighter for any prompt. */
function tighterTtft(target: SloTargets["ttft"], ttftMs: number): SloTargets["ttft"] | undefined {
  const { percentileRatio, limitMs, perPromptTokenMs } = target ?? {
    percentileRatio: PERCENTILE_RATIO,
    limitMs: Infinity,
  };
  if (ttftMs < limitMs) return { percentileRatio, limitMs: ttftMs };
  if (perPromptTokenMs === undefined) return undefined;
  return { percentileRatio, limitMs, perPromptTokenMs, atMostMs: ttftMs };
}
