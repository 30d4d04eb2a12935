import type { EngineAdapter } from "./engine-adapter.ts";
import { signalsOf } from "../protocol/engine-signals.ts";
import { URGENCY_MAX } from "../protocol/urgency.ts";
import { listedNames } from "./model-names.ts";
import { maxOfMetric, sumOfMetric } from "./metrics-text.ts";
import { metricsOf, readyOf } from "./read-answer.ts";

/**
 * TensorRT-LLM's `trtllm-serve` (https://nvidia.github.io/TensorRT-LLM). Its `/metrics` hands out what each step did, once:
 * whoever reads it takes it from everybody else, so it is not asked. The Prometheus metrics beside it tell less,
 * and only where `return_perf_metrics` is on.
 */
export const TRTLLM: EngineAdapter = {
  engine: "trtllm",
  label: "TensorRT-LLM",
  probePaths: ["/health", "/prometheus/metrics"],
  readSignals: ([health, answer]) => {
    const metrics = metricsOf(answer);
    return signalsOf({
      isReady: readyOf(health),
      running: sumOfMetric(metrics, "trtllm_num_requests_running"),
      queued: sumOfMetric(metrics, "trtllm_num_requests_waiting"),
      kvUsedRatio: maxOfMetric(metrics, "trtllm_kv_cache_utilization"),
      prefixHitRatio: maxOfMetric(metrics, "trtllm_kv_cache_hit_rate"),
    });
  },
  models: { path: "/v1/models", readNames: listedNames, answersAnyName: true },
  // Of Triton's frontend, which holds to its list.
  lacksModel: ({ message }) => /^unknown (?:model|lora)/.test(message),
  advice: [
    { lacking: "queued", advice: "set return_perf_metrics: true in its configuration file" },
  ],
  // It looks once a second whether its client is still there.
  endsWhenLeft: true,
  // Newer versions take a salt, older ones refuse what they do not know, and some ignore it in completions: none is relied on.
  keepsNamespaces: false,
  priorities: {
    setup: "set scheduler_config.waiting_queue_policy: priority in its configuration file",
  },
  // Another server's KV, and an adapter from whatever folder a client names.
  withheldMembers: ["disaggregated_params", "lora_request"],
  // From 0 to 1, higher is earlier.
  ownMembers: ({ urgency }) =>
    urgency === undefined ? {} : { priority: String(urgency / URGENCY_MAX) },
};
