import * as z from "zod";

const Count = z.int().min(0);
/** `null` where there is none, or where a failed answer makes it infinite. */
const Figure = z.number().nullable();

const Quantiles = z.object({
  p50: Figure,
  p90: Figure,
  p95: Figure,
  p99: Figure,
});
export type Quantiles = z.infer<typeof Quantiles>;

/** What one tenant of a load got. Quantiles are over what was admitted, a failure being infinitely late. */
export const TenantResult = z.object({
  name: z.string(),
  goodput: z.string(),
  offered: Count,
  admitted: Count,
  completed: Count,
  failed: Count,
  cancelled: Count,
  rejected: Count,
  rejected_by_status: z.record(z.string(), Count),
  /** Of `failed`, by reason: the status and the server's code. A result of old has none. */
  failures: z.record(z.string(), Count).default({}),
  good: Count,
  request_goodput: Figure,
  /** Good among all that were offered, refusals and failures included. */
  attainment_offered: Figure,
  /** Good among what was not refused. */
  attainment_admitted: Figure,
  /** Of the one before: exact, 95 %. */
  attainment_admitted_interval: z.tuple([z.number(), z.number()]).nullable(),
  ttft_ms: Quantiles,
  tpot_ms: Quantiles,
  tbt_ms: Quantiles,
  e2el_ms: Quantiles,
  fluidity_index: z.object({ mean: Figure, share_above_0_9: Figure }),
});
export type TenantResult = z.infer<typeof TenantResult>;

/** Whether the side that made the load could keep to its own schedule. */
const ClientResult = z.object({
  kept_up: z.boolean(),
  lateness_ms: Quantiles,
  lateness_max_ms: Figure,
  held_requests: Count,
  event_loop_delay_p99_ms: Figure,
});

/** One request of a result: enough to compare two results by. */
export const RequestDetail = z.object({
  tenant: Count,
  due_s: z.number(),
  ttft_ms: Figure,
  tpot_ms: Figure,
  e2el_ms: Figure,
  ending: z.enum(["answered", "refused", "failed", "cancelled"]),
  good: z.boolean(),
});
export type RequestDetail = z.infer<typeof RequestDetail>;

/**
 * The result of a load. The upper fields are those of `vllm bench serve`, of successes alone as there; but
 * their TTFT counts from when a request was due. The rest is ours.
 */
export const LoadResult = z.looseObject({
  date: z.string(),
  model_id: z.string(),
  num_prompts: Count,
  request_rate: z.union([z.number(), z.literal("trace")]),
  burstiness: z.number().nullable(),
  max_concurrency: Count,
  duration: z.number(),
  completed: Count,
  failed: Count,
  request_throughput: z.number(),
  request_goodput: Figure,
  output_throughput: z.number(),
  rejected: Count,
  /** Why requests failed, of all tenants; refusals, which vLLM counts as failed too, are not in it. */
  failures: z.record(z.string(), Count).default({}),
  offered: Count,
  seed: Count,
  interrupted: z.boolean(),
  attainment_offered: Figure,
  steady: z.object({
    is_steady: z.boolean(),
    under_way_first: z.number(),
    under_way_last: z.number(),
  }),
  client: ClientResult,
  prompt_tokens_measured: z.boolean(),
  tenants: z.array(TenantResult),
  requests: z.array(RequestDetail),
});
export type LoadResult = z.infer<typeof LoadResult>;
