import type { MetricFamily, MetricName } from "../base/metric-text.ts";
import { metricFamily, withLabel } from "../base/metric-text.ts";
import { requestCostMs } from "../forecast/request-cost.ts";
import type { Capacity } from "./capacity.ts";
import type { Lease } from "./lease-book.ts";
import type { Outcome } from "./offer.ts";

interface PromptCounts {
  readonly tenantId: string;
  readonly modelId: string;
  tokens: number;
  cachedTokens: number;
  /** What it would have taken to compute those that were cached, on the reference replica. */
  savedMs: number;
}

/** By tenant and model, those heard of longest ago first. */
export type PromptTotalsState = Map<string, PromptCounts>;

const ROWS_MAX = 1_000;

const METRICS = {
  tokens: {
    name: "gw_prompt_tokens_total",
    type: "counter",
    help: "Prompt tokens that replicas counted, of the tenants and models heard of last",
  },
  cached: {
    name: "gw_prompt_cached_tokens_total",
    type: "counter",
    help: "Those among them that were found cached",
  },
  saved: {
    name: "gw_prefill_saved_seconds_total",
    type: "counter",
    help: "Time that a replica would have needed to compute those that were found cached",
  },
} as const satisfies Record<string, MetricName>;

/** Of whose prompts how much was found cached, for metrics: no decision is made by it. */
export class PromptTotals {
  readonly state: PromptTotalsState;

  constructor(state: PromptTotalsState = new Map()) {
    this.state = state;
  }

  /** A request has ended, and its replica may have said what of its prompt it had. */
  ended({ tenantId, modelId }: Lease, outcome: Outcome, capacity: Capacity | undefined): void {
    const { promptTokens, cachedTokens = 0 } = outcome;
    if (promptTokens === undefined) return;
    const key = `${tenantId}\n${modelId}`;
    const known = this.state.get(key);
    const counts = known ?? { tenantId, modelId, tokens: 0, cachedTokens: 0, savedMs: 0 };
    counts.tokens += promptTokens;
    counts.cachedTokens += cachedTokens;
    if (capacity !== undefined && cachedTokens > 0) {
      const costWith = (tokens: number) =>
        requestCostMs({ promptTokens, cachedTokens: tokens, outputTokens: 1 }, capacity.reference);
      counts.savedMs += Math.max(0, costWith(0) - costWith(cachedTokens));
    }
    this.state.delete(key);
    this.state.set(key, counts);
    for (const oldest of this.state.keys()) {
      if (this.state.size <= ROWS_MAX) break;
      this.state.delete(oldest);
    }
  }

  metrics(pool: string): MetricFamily[] {
    const familyOf = (name: MetricName, read: (counts: PromptCounts) => number): MetricFamily =>
      metricFamily(
        name,
        Array.from(this.state.values(), (counts) => {
          const ofTenant = withLabel(pool, "tenant", counts.tenantId);
          return { labels: withLabel(ofTenant, "model", counts.modelId), value: read(counts) };
        }),
      );
    return [
      familyOf(METRICS.tokens, ({ tokens }) => tokens),
      familyOf(METRICS.cached, ({ cachedTokens }) => cachedTokens),
      familyOf(METRICS.saved, ({ savedMs }) => savedMs / 1000),
    ];
  }
}
