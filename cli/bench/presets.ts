import type { Goals } from "./goals.ts";
import type { TokenRange } from "./token-range.ts";

/** What is asked for where nothing else says so. */
interface Preset {
  readonly promptTokens?: TokenRange;
  readonly outputTokens?: TokenRange;
  readonly goals?: Goals;
}

const exactly = (tokens: number): TokenRange => ({ min: tokens, max: tokens });

/**
 * Shapes of prompts, and the p99 limits of MLPerf Inference's server and interactive scenarios
 * (mlcommons/inference, loadgen/mlperf.conf at v5.1.1). Of MLPerf these are the limits and not the data
 * sets: lengths are set beside them.
 */
export const PRESETS: Readonly<Record<string, Preset>> = {
  "1k": { promptTokens: exactly(1_000), outputTokens: exactly(200) },
  "10k": { promptTokens: exactly(10_000), outputTokens: exactly(200) },
  "mlperf-llama3.1-8b": { goals: { ttft: 2000, tpot: 100 } },
  "mlperf-llama3.1-8b-interactive": { goals: { ttft: 500, tpot: 30 } },
  "mlperf-llama2-70b": { goals: { ttft: 2000, tpot: 200 } },
  "mlperf-llama2-70b-interactive": { goals: { ttft: 450, tpot: 40 } },
  "mlperf-llama3.1-405b": { goals: { ttft: 6000, tpot: 175 } },
  "mlperf-llama3.1-405b-interactive": { goals: { ttft: 4500, tpot: 80 } },
  "mlperf-mixtral-8x7b": { goals: { ttft: 2000, tpot: 200 } },
  "mlperf-deepseek-r1": { goals: { ttft: 2000, tpot: 80 } },
};
