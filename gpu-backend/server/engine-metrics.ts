import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { EngineSnapshot } from "../thread-messages.ts";
import { createGenAiMetrics, type GenAiMetrics } from "./gen-ai-metrics.ts";
import {
  FIRST_TOKEN_BUCKETS,
  REQUEST_BUCKETS,
  TOKEN_GAP_BUCKETS,
} from "../../src/slo/metric-buckets.ts";

/** A name, what it means, and where the newest snapshot has it. */
type SnapshotMetric = readonly [string, string, (snapshot: EngineSnapshot) => number];

/** Names are vLLM's with our prefix, so that its dashboards need one substitution. */
const GAUGES: readonly SnapshotMetric[] = [
  ["engine_num_requests_running", "Requests that run", (s) => s.runningRequests],
  ["engine_num_requests_waiting", "Requests that wait to run", (s) => s.queuedRequests],
  [
    "engine_kv_cache_usage_perc",
    "Share of the KV blocks that running requests hold, 0 to 1",
    (s) => s.usedBlocks / s.blockCount,
  ],
];

const TIER_GAUGES: readonly SnapshotMetric[] = [
  ["engine_kv_tier_memory_bytes", "KV kept in host memory", (s) => s.tiers.memoryBytes],
  ["engine_kv_tier_disk_bytes", "KV kept on disk", (s) => s.tiers.diskBytes],
];

const PEER_GAUGES: readonly SnapshotMetric[] = [
  ["engine_peer_leases", "Transfers of KV to other engines under way", (s) => s.leases.openLeases],
  ["engine_prefill_holds", "Prompts computed for others, not fetched yet", (s) => s.leases.holds],
];

const PEER_TOTALS: readonly SnapshotMetric[] = [
  ["engine_peer_fetches_total", "Times that KV was asked of a peer", (s) => s.tiers.peers.fetches],
  [
    "engine_peer_failed_fetches_total",
    "Of them those that failed, so that the rest was computed",
    (s) => s.tiers.peers.failedFetches,
  ],
  [
    "engine_peer_loaded_blocks_total",
    "Blocks of KV that came from peers",
    (s) => s.tiers.peers.loadedBlocks,
  ],
  ["engine_peer_loaded_bytes_total", "The same in bytes", (s) => s.tiers.peers.loadedBytes],
  [
    "engine_peer_leases_ended_early_total",
    "Transfers to other engines that were not read in time or were in the way of what ran here",
    (s) => s.leases.endedEarly,
  ],
  [
    "engine_prefill_holds_ended_early_total",
    "Prompts computed for others that were not fetched in time or were in the way of what ran here",
    (s) => s.leases.holdsEndedEarly,
  ],
  ["engine_prefill_requests_total", "Prompts computed for others", (s) => s.prefills.requests],
  [
    "engine_prefill_tokens_total",
    "Tokens of those, cached ones included; not among engine_prompt_tokens_total",
    (s) => s.prefills.tokens,
  ],
];

const TOTALS: readonly SnapshotMetric[] = [
  ["engine_prompt_tokens_total", "Prompt tokens of started requests", (s) => s.promptTokens],
  ["engine_generation_tokens_total", "Tokens generated", (s) => s.outputTokens],
  [
    "engine_prefix_cache_queries_total",
    "Prompt tokens looked up in the prefix cache",
    (s) => s.prefixQueriedTokens,
  ],
  [
    "engine_prefix_cache_hits_total",
    "Prompt tokens found in the prefix cache",
    (s) => s.prefixHitTokens,
  ],
  [
    "engine_external_prefix_cache_hits_total",
    "Prompt tokens loaded from below the KV pool",
    (s) => s.prefixLoadedTokens,
  ],
  [
    "engine_kv_tier_failed_blocks_total",
    "Blocks below the pool that were not sound",
    (s) => s.tiers.failedBlocks,
  ],
  ["engine_num_preemptions_total", "Running requests put back to wait", (s) => s.preemptions],
  ["engine_spec_decode_num_drafts_total", "Rows with guesses to verify", (s) => s.drafts.drafts],
  ["engine_spec_decode_num_draft_tokens_total", "Guesses verified", (s) => s.drafts.draftTokens],
  [
    "engine_spec_decode_num_accepted_tokens_total",
    "Guesses that held",
    (s) => s.drafts.acceptedTokens,
  ],
  ["engine_step_retries_total", "Failed steps that were tried again", (s) => s.stepRetries],
];

/** What is observed request by request; durations in seconds, as Prometheus wants them. */
export interface EngineMetrics {
  readonly registry: Registry;
  /** Arrival to first token. */
  readonly ttft: Histogram;
  /** One gap between two tokens. */
  readonly tokenGap: Histogram;
  /** Arrival to the last token. */
  readonly request: Histogram;
  /** Submission to the first step. */
  readonly queue: Histogram;
  /** First step to first token. */
  readonly prefill: Histogram;
  /** First to last token. */
  readonly decode: Histogram;
  readonly finished: Counter<"finished_reason">;
  readonly errors: Counter<"code">;
  readonly unknownParameters: Counter;
  readonly genAi: GenAiMetrics;
}

/**
 * Creates the metrics of one engine. What the engine itself counts is taken from the newest
 * snapshot at each scrape; before the first snapshot it is 0.
 */
export function createEngineMetrics(readSnapshot: () => EngineSnapshot | undefined): EngineMetrics {
  const registry = new Registry();
  registerSnapshotMetrics(registry, readSnapshot);
  registerMemory(registry);
  const registers = [registry];
  const histogram = (name: string, help: string, buckets: number[]) =>
    new Histogram({ name, help, buckets, registers });
  return {
    registry,
    ttft: histogram(
      "engine_time_to_first_token_seconds",
      "Arrival to first token",
      FIRST_TOKEN_BUCKETS,
    ),
    tokenGap: histogram(
      "engine_inter_token_latency_seconds",
      "Gap between two tokens",
      TOKEN_GAP_BUCKETS,
    ),
    request: histogram(
      "engine_e2e_request_latency_seconds",
      "Arrival to last token",
      REQUEST_BUCKETS,
    ),
    queue: histogram(
      "engine_request_queue_time_seconds",
      "Submission to first step",
      REQUEST_BUCKETS,
    ),
    prefill: histogram(
      "engine_request_prefill_time_seconds",
      "First step to first token",
      REQUEST_BUCKETS,
    ),
    decode: histogram("engine_request_decode_time_seconds", "First to last token", REQUEST_BUCKETS),
    finished: new Counter({
      name: "engine_request_success_total",
      help: "Requests whose generation ended, by how it ended",
      labelNames: ["finished_reason"],
      registers,
    }),
    errors: new Counter({
      name: "engine_request_errors_total",
      help: "Requests that were answered with an error",
      labelNames: ["code"],
      registers,
    }),
    unknownParameters: new Counter({
      name: "engine_unknown_params_total",
      help: "Parameters in requests that the API does not have",
      registers,
    }),
    genAi: createGenAiMetrics(registry),
  };
}

/** The name is that of Prometheus' own clients. */
function registerMemory(registry: Registry): void {
  const gauge: Gauge = new Gauge({
    name: "process_resident_memory_bytes",
    help: "Resident memory of the whole process, all threads together",
    registers: [registry],
    collect: () => gauge.set(process.memoryUsage.rss()),
  });
}

function registerSnapshotMetrics(
  registry: Registry,
  readSnapshot: () => EngineSnapshot | undefined,
): void {
  const registers = [registry];
  const valueOf = (read: (snapshot: EngineSnapshot) => number): number => {
    const snapshot = readSnapshot();
    return snapshot === undefined ? 0 : read(snapshot);
  };
  for (const [name, help, read] of [...GAUGES, ...TIER_GAUGES, ...PEER_GAUGES]) {
    const gauge: Gauge = new Gauge({
      name,
      help,
      registers,
      collect: () => gauge.set(valueOf(read)),
    });
  }
  registerAcceptedByPlace(registry, readSnapshot);
  for (const [name, help, read] of [...TOTALS, ...PEER_TOTALS]) {
    const counter: Counter = new Counter({
      name,
      help,
      registers,
      collect: () => {
        counter.reset();
        counter.inc(valueOf(read));
      },
    });
  }
}

function registerAcceptedByPlace(
  registry: Registry,
  readSnapshot: () => EngineSnapshot | undefined,
): void {
  const counter: Counter<"position"> = new Counter({
    name: "engine_spec_decode_num_accepted_tokens_per_pos_total",
    help: "Guesses that held, by their place among those of a row",
    labelNames: ["position"],
    registers: [registry],
    collect: () => {
      counter.reset();
      for (const [position, accepted] of (readSnapshot()?.drafts.acceptedByPlace ?? []).entries()) {
        counter.inc({ position: String(position) }, accepted);
      }
    },
  });
}
