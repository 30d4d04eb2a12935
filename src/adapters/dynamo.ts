import * as z from "zod";
import type { EngineAdapter } from "./engine-adapter.ts";
import { listedNames } from "./model-names.ts";
import type { ProbeAnswer } from "./engine-adapter.ts";
import { signalsOf } from "../protocol/engine-signals.ts";
import { sumOfMetric } from "./metrics-text.ts";
import { jsonOf, metricsOf, readyOf } from "./read-answer.ts";

const Health = z.object({ instances: z.array(z.unknown()).optional() });
/** Its default for "all workers are busy"; `DYN_HTTP_OVERLOAD_STATUS_CODE` may make it another one. */
const OVERLOADED = 529;

/**
 * NVIDIA Dynamo's frontend (https://docs.nvidia.com/dynamo). Its `/health` is 200 even where no worker is there: the list
 * says so. It routes among workers of its own, so that its figures are those of all of them.
 */
export const DYNAMO: EngineAdapter = {
  engine: "dynamo",
  label: "Dynamo",
  probePaths: ["/health", "/metrics"],
  readSignals: ([health, answer]) => {
    const metrics = metricsOf(answer);
    return signalsOf({
      isReady: isServing(health),
      running: sumOfMetric(
        metrics,
        "dynamo_frontend_active_requests",
        "dynamo_frontend_inflight_requests",
      ),
      // `…_queued_requests` are those without a first token, most of which a worker computes.
      queued: sumOfMetric(metrics, "dynamo_frontend_router_queue_pending_requests"),
    });
  },
  models: { path: "/v1/models", readNames: listedNames },
  advice: [{ lacking: "running", advice: "let /metrics of the frontend be read" }],
  isOverload: ({ status }) => status === OVERLOADED,
  // It cancels at its workers what a client has left.
  endsWhenLeft: true,
  keepsNamespaces: true,
  priorities: {
    setup:
      "start its workers with vLLM's --scheduling-policy priority or SGLang's --enable-priority-scheduling",
  },
  // All of its own: which worker, whose cache, in which order. What it says of the cache outranks `cache_salt`.
  withheldMembers: ["nvext"],
  // Older versions read the salt beside `nvext` only. Higher is earlier, whichever engine its workers run.
  ownMembers: ({ cacheSalt, urgency }) => {
    const nvext = {
      ...(cacheSalt !== undefined && { cache_salt: cacheSalt }),
      ...(urgency !== undefined && { agent_hints: { priority: urgency } }),
    };
    return {
      ...(cacheSalt !== undefined && { cache_salt: JSON.stringify(cacheSalt) }),
      ...(Object.keys(nvext).length > 0 && { nvext: JSON.stringify(nvext) }),
    };
  },
};

function isServing(health: ProbeAnswer): boolean | undefined {
  const instances = jsonOf(health, Health)?.instances;
  return instances?.length === 0 ? false : readyOf(health);
}
