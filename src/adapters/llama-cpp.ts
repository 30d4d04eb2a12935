import * as z from "zod";
import type { EngineAdapter } from "./engine-adapter.ts";
import { routedNames } from "./model-names.ts";
import { signalsOf } from "../protocol/engine-signals.ts";
import { sumOfMetric } from "./metrics-text.ts";
import { jsonOf, metricsOf, readyOf } from "./read-answer.ts";

const Props = z.object({ total_slots: z.number().optional().catch(undefined) });

/**
 * llama.cpp's `llama-server` (https://github.com/ggml-org/llama.cpp/tree/master/tools/server). It answers 503 while it
 * loads; what does not fit into its slots is deferred without a bound. `/metrics` is there with `--metrics` only (501
 * otherwise). Slots keep the KV of whoever had them last: tenants share it.
 */
export const LLAMA_CPP: EngineAdapter = {
  engine: "llamacpp",
  label: "llama.cpp",
  probePaths: ["/health", "/metrics", "/props"],
  readSignals: ([health, answer, props]) => {
    const metrics = metricsOf(answer);
    return signalsOf({
      isReady: readyOf(health),
      running: sumOfMetric(metrics, "llamacpp:requests_processing"),
      queued: sumOfMetric(metrics, "llamacpp:requests_deferred"),
      runningMax: jsonOf(props, Props)?.total_slots,
    });
  },
  // One that was started without a model routes to several; any other answers by whichever name.
  models: { path: "/v1/models", readNames: routedNames },
  advice: [{ lacking: "queued", advice: "start it with --metrics" }],
  endsWhenLeft: true,
  keepsNamespaces: false,
  // The slot, with the KV, of whoever had it last; and how strongly its adapters act.
  withheldMembers: ["id_slot", "lora"],
};
