/** A bound that a share of requests must meet: 0.99 and 500 read "p99 is at most 500 ms". */
interface PercentileTarget {
  readonly percentileRatio: number;
  readonly limitMs: number;
}

/** A bound on TTFT that may grow with the prompt: `limitMs + perPromptTokenMs × prompt tokens`. */
interface TtftTarget extends PercentileTarget {
  readonly perPromptTokenMs?: number;
  /** However long the prompt is; only where a request asks for less than its class promises. */
  readonly atMostMs?: number;
}

/** What a tenant was promised. A target that is absent was not promised. */
export interface SloTargets {
  readonly ttft?: TtftTarget;
  /** Mean gap of a request's tokens behind the first. */
  readonly tpot?: PercentileTarget;
  readonly e2e?: PercentileTarget;
  /** No gap between two tokens is longer than this. */
  readonly tbtMaxMs?: number;
}

const p99 = (limitMs: number): PercentileTarget => ({ percentileRatio: 0.99, limitMs });

/** The built-in promises, after the limits of MLPerf Inference. A configuration may add or replace. */
export const BUILT_IN_CLASSES: Readonly<Record<string, SloTargets>> = {
  interactive: { ttft: p99(500), tpot: p99(30) },
  chat: { ttft: p99(1000), tpot: p99(50) },
  standard: { ttft: p99(2000), tpot: p99(100) },
  agent: { ttft: p99(3000), tpot: p99(100) },
  bulk: { ttft: p99(10_000), tpot: p99(100) },
};
