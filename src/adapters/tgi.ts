import type { EngineAdapter } from "./engine-adapter.ts";
import { signalsOf } from "../protocol/engine-signals.ts";
import { listedNames } from "./model-names.ts";
import { ratioOf, sumOfMetric } from "./metrics-text.ts";
import { metricsOf, readyOf } from "./read-answer.ts";

/**
 * Hugging Face's text-generation-inference (https://huggingface.co/docs/text-generation-inference). It refuses by 429 above
 * `--max-concurrent-requests`, and tells errors as bare strings, also inside a stream. All its users share one
 * prefix cache.
 */
export const TGI: EngineAdapter = {
  engine: "tgi",
  label: "TGI",
  probePaths: ["/health", "/metrics"],
  readSignals: ([health, answer]) => {
    const metrics = metricsOf(answer);
    return signalsOf({
      isReady: readyOf(health),
      running: sumOfMetric(metrics, "tgi_batch_current_size"),
      queued: sumOfMetric(metrics, "tgi_queue_size"),
      kvUsedRatio: ratioOf(
        sumOfMetric(metrics, "tgi_batch_current_max_tokens"),
        sumOfMetric(metrics, "tgi_batch_max_total_tokens"),
      ),
    });
  },
  // Adapters are not among them, and one that it has not is answered by its base model.
  models: { path: "/v1/models", readNames: listedNames, answersAnyName: true },
  advice: [{ lacking: "queued", advice: "let /metrics be read: it is on by default" }],
  endsWhenLeft: true,
  keepsNamespaces: false,
  withheldMembers: [],
  isOverload: ({ message }) => message.includes("model is overloaded"),
};
