import { QuantileSketch } from "../../src/base/quantile-sketch.ts";
import { quantileOf } from "../../simulator/statistics.ts";
import type { CountedRequest, GapSums } from "./load-tally.ts";
import { finite } from "./figures.ts";
import { hasGoals } from "./goals.ts";
import type { FinishedLoad } from "./finished-load.ts";

const PERCENTILES = [50, 90, 95, 99] as const;

/**
 * The result under the names of `vllm bench serve`: percentiles over successes alone, rates per second of the
 * window. What was completed inside the window counts for throughput, whenever it was due.
 */
export function vllmFields(load: FinishedLoad, windowMs: number) {
  const { tally, tenants, warmUpMs, untilMs, setting } = load;
  const { counted } = tally;
  const windowSeconds = windowMs / 1000;
  const answered = counted.filter(({ ending }) => ending === "answered");
  const inside = tally.spans.filter(
    ({ isAnswered, endedMs }) => isAnswered && endedMs >= warmUpMs && endedMs < untilMs,
  );
  const inputTokens = sumOf(inside, ({ inputTokens: tokens }) => tokens);
  const outputTokens = sumOf(inside, ({ outputTokens: tokens }) => tokens);
  const isJudged = tenants.some(({ goals }) => hasGoals(goals));
  return {
    date: setting.date,
    endpoint_type: setting.endpoint === "chat" ? "openai-chat" : "openai",
    backend: setting.endpoint === "chat" ? "openai-chat" : "openai",
    label: null,
    model_id: setting.model,
    tokenizer_id: null,
    num_prompts: counted.length,
    request_rate: setting.ratePerSecond ?? ("trace" as const),
    burstiness: finite(setting.burstiness),
    max_concurrency: setting.concurrencyMax,
    duration: windowSeconds,
    completed: answered.length,
    failed: counted.filter(({ ending }) => ending === "failed" || ending === "refused").length,
    total_input_tokens: sumOf(answered, ({ inputTokens: tokens }) => tokens),
    total_output_tokens: sumOf(answered, ({ outputTokens: tokens }) => tokens),
    request_throughput: inside.length / windowSeconds,
    request_goodput: isJudged
      ? counted.filter(({ isGood }) => isGood).length / windowSeconds
      : null,
    output_throughput: outputTokens / windowSeconds,
    total_token_throughput: (inputTokens + outputTokens) / windowSeconds,
    max_concurrent_requests: load.underWayMost,
    ...toFields(
      "ttft",
      answered.map(({ ttftMs }) => ttftMs),
    ),
    ...toFields(
      "tpot",
      answered.filter(({ outputTokens: tokens }) => tokens > 1).map(({ tpotMs }) => tpotMs),
    ),
    ...gapFields(tally.gapsByTenant),
    ...toFields(
      "e2el",
      answered.map(({ e2eMs }) => e2eMs),
    ),
    ...(load.keepsDetails && details(counted)),
  };
}

/** vLLM writes 0 where nothing came. */
const seconds = (ms: number) => (Number.isFinite(ms) ? ms / 1000 : 0);

/** Lists of one entry a request, in seconds, as vLLM writes them with `--save-detailed`. */
function details(counted: readonly CountedRequest[]) {
  return {
    input_lens: counted.map(({ inputTokens }) => inputTokens),
    output_lens: counted.map(({ outputTokens }) => outputTokens),
    ttfts: counted.map(({ ttftMs }) => seconds(ttftMs)),
    itls: counted.map(({ gapsMs }) => (gapsMs ?? []).map((ms) => ms / 1000)),
    start_times: counted.map(({ dueMs, latenessMs }) => (dueMs + latenessMs) / 1000),
    errors: counted.map(({ error }) => error),
  };
}

function toFields(name: string, values: readonly number[]): Record<string, number> {
  if (values.length === 0) return {};
  const mean = sumOf(values, (value) => value) / values.length;
  const variance = sumOf(values, (value) => (value - mean) ** 2) / values.length;
  return {
    [`mean_${name}_ms`]: mean,
    [`median_${name}_ms`]: quantileOf(values, 0.5),
    [`std_${name}_ms`]: Math.sqrt(variance),
    ...Object.fromEntries(
      PERCENTILES.map((percent) => [`p${percent}_${name}_ms`, quantileOf(values, percent / 100)]),
    ),
  };
}

/** Of gaps the quantiles are within 1 %, mean and deviation exact. */
function gapFields(gaps: readonly GapSums[]): Record<string, number> {
  const all = new QuantileSketch();
  for (const { sketch } of gaps) all.merge(sketch);
  const count = sumOf(gaps, ({ count: own }) => own);
  if (count === 0) return {};
  const mean = sumOf(gaps, ({ sumMs }) => sumMs) / count;
  const variance = Math.max(0, sumOf(gaps, ({ squaresMs }) => squaresMs) / count - mean * mean);
  return {
    mean_itl_ms: mean,
    median_itl_ms: all.quantile(0.5) ?? 0,
    std_itl_ms: Math.sqrt(variance),
    ...Object.fromEntries(
      PERCENTILES.map((percent) => [`p${percent}_itl_ms`, all.quantile(percent / 100) ?? 0]),
    ),
  };
}

function sumOf<Item>(items: readonly Item[], read: (item: Item) => number): number {
  return items.reduce((sum, item) => sum + read(item), 0);
}
