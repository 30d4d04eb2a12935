import type { EngineAdapter } from "./engine-adapter.ts";
import { listedNames } from "./model-names.ts";
import { signalsOf } from "../protocol/engine-signals.ts";
import { maxOfMetric, ratioOf, sumOfMetric } from "./metrics-text.ts";
import { metricsOf, readyOf } from "./read-answer.ts";

/**
 * vLLM (https://docs.vllm.ai). Its queue has no bound by default, so that it never refuses: how many wait is the one
 * sign of overload. `cache_salt` keeps tenants' blocks apart. Metrics carry an `engine` label for each of its
 * data-parallel ranks.
 */
export const VLLM: EngineAdapter = {
  engine: "vllm",
  label: "vLLM",
  probePaths: ["/health", "/metrics"],
  readSignals: ([health, answer]) => {
    const metrics = metricsOf(answer);
    return signalsOf({
      isReady: readyOf(health),
      running: sumOfMetric(metrics, "vllm:num_requests_running"),
      queued: sumOfMetric(metrics, "vllm:num_requests_waiting"),
      kvUsedRatio: maxOfMetric(metrics, "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
      prefixHitRatio: ratioOf(
        sumOfMetric(metrics, "vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
        sumOfMetric(
          metrics,
          "vllm:prefix_cache_queries_total",
          "vllm:gpu_prefix_cache_queries_total",
        ),
      ),
    });
  },
  models: { path: "/v1/models", readNames: listedNames },
  advice: [
    { lacking: "cached_tokens", advice: "start it with --enable-prompt-tokens-details" },
    { lacking: "queued", advice: "let /metrics be read: it is on by default" },
  ],
  endsWhenLeft: true,
  keepsNamespaces: true,
  priorities: { setup: "start it with --scheduling-policy priority" },
  // Where KV is to be fetched from, which is whatever host a client names; and an id that another request may have.
  withheldMembers: ["kv_transfer_params", "request_id"],
  // Lower is earlier, and 0 what is said of nothing: whatever the gateway knows nothing of comes last.
  ownMembers: ({ cacheSalt, urgency }) => ({
    ...(cacheSalt !== undefined && { cache_salt: JSON.stringify(cacheSalt) }),
    ...(urgency !== undefined && { priority: String(0 - urgency) }),
  }),
};
