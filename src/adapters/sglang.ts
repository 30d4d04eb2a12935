import * as z from "zod";
import type { EngineAdapter, ProbeAnswer } from "./engine-adapter.ts";
import { maxOf, signalsOf, sumOf } from "../protocol/engine-signals.ts";
import { boundedNames, cardsOf } from "./model-names.ts";
import { jsonOf, readyOf } from "./read-answer.ts";

const Count = z.number().optional().catch(undefined);

const Loads = z.object({
  loads: z.array(
    z.object({
      num_running_reqs: Count,
      num_waiting_reqs: Count,
      num_waiting_uncached_tokens: Count,
      max_running_requests: Count,
      token_usage: Count,
      cache_hit_rate: Count,
    }),
  ),
});

/** Said when its queue is at `--max-queued-requests`, or a request waited there for too long. */
const FULL = ["queue is full", "waiting timeout"];

/**
 * SGLang (https://docs.sglang.io). `/v1/loads` is always there and costs nothing; `/health` generates a token and
 * is not asked. Its ranks are told one by one, and a server that loads does not answer at all.
 */
export const SGLANG: EngineAdapter = {
  engine: "sglang",
  label: "SGLang",
  probePaths: ["/v1/loads"],
  readSignals: ([answer]) => {
    const loads = jsonOf(answer, Loads)?.loads ?? [];
    return signalsOf({
      isReady: readyOf(answer),
      running: sumOf(loads.map((load) => load.num_running_reqs)),
      queued: sumOf(loads.map((load) => load.num_waiting_reqs)),
      queuedTokens: sumOf(loads.map((load) => load.num_waiting_uncached_tokens)),
      runningMax: sumOf(loads.map((load) => load.max_running_requests)),
      kvUsedRatio: maxOf(loads.map((load) => load.token_usage)),
      prefixHitRatio: maxOf(loads.map((load) => load.cache_hit_rate)),
    });
  },
  // By the name of its model, or any other; an adapter only as `base:adapter`.
  models: { path: "/v1/models", readNames: sglangNames, answersAnyName: true },
  lacksModel: ({ message }) => message.includes("lora adapters are not loaded"),
  advice: [
    { lacking: "cached_tokens", advice: "start it with --enable-cache-report" },
    { lacking: "queued", advice: "use a version that has /v1/loads" },
  ],
  isOverload: ({ status, message }) =>
    status === 503 && FULL.some((words) => message.includes(words)),
  endsWhenLeft: true,
  keepsNamespaces: true,
  priorities: {
    setup:
      "start it with --enable-priority-scheduling, without --schedule-low-priority-values-first",
  },
  // Another server's KV, a namespace beside ours, another request's id or session, an adapter that the tenant may not have, and code.
  withheldMembers: [
    "bootstrap_host",
    "bootstrap_port",
    "bootstrap_room",
    "extra_key",
    "rid",
    "session_params",
    "lora_path",
    "routed_dp_rank",
    "data_parallel_rank",
    "custom_logit_processor",
  ],
  // Higher is earlier.
  ownMembers: ({ cacheSalt, urgency }) => ({
    ...(cacheSalt !== undefined && { cache_salt: JSON.stringify(cacheSalt) }),
    ...(urgency !== undefined && { priority: String(urgency) }),
  }),
};

/** An adapter's card has its own name only, by which its base model would answer. */
function sglangNames(answer: ProbeAnswer): readonly string[] | undefined {
  return boundedNames(
    cardsOf(answer)?.map(({ id, parent }) => (parent === undefined ? id : `${parent}:${id}`)),
  );
}
