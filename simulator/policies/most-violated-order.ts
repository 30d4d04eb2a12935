import { e2eLimitMs } from "../../src/slo/deadlines.ts";
import type { QueueOrder } from "./gateway-queue.ts";
import type { PolicyEnding, PolicyRequest } from "./policy.ts";

/** What was seen of requests of one kind. */
interface Profile {
  answers: number;
  latencyMs: number;
  outputTokens: number;
}

/**
 * First what is expected to break its targets most: by waited + expected latency − target, the largest first, where
 * the target is TTFT + TPOT × output tokens. After AIBrix' `SLOQueue` (`pkg/plugins/gateway/algorithms`): a queue for
 * each size of request by powers of two, its oldest one standing for it, no limit on how late anything is. There a
 * profile made before gives the latency and the length that are expected; here they are the means of what was seen of
 * that size and tenant.
 */
export class MostViolatedOrder implements QueueOrder {
  readonly #profiles = new Map<string, Profile>();

  first(waiting: Iterable<PolicyRequest>, nowMs: number): PolicyRequest | undefined {
    const queues = new Set<string>();
    let first: { readonly request: PolicyRequest; readonly rankMs: number } | undefined;
    for (const request of waiting) {
      const queue = queueOf(request);
      if (queues.has(queue)) continue;
      queues.add(queue);
      const rankMs = this.#rankMs(request, nowMs);
      if (first === undefined || rankMs > first.rankMs) first = { request, rankMs };
    }
    return first?.request;
  }

  ended(request: PolicyRequest, ending: PolicyEnding): void {
    const { firstTokenAfterMs, tpotMs = 0, outputTokens } = ending;
    if (firstTokenAfterMs === undefined) return;
    const queue = queueOf(request);
    const profile = this.#profiles.get(queue) ?? { answers: 0, latencyMs: 0, outputTokens: 0 };
    this.#profiles.set(queue, profile);
    profile.answers += 1;
    const latencyMs = firstTokenAfterMs + tpotMs * Math.max(0, outputTokens - 1);
    profile.latencyMs += (latencyMs - profile.latencyMs) / profile.answers;
    profile.outputTokens += (outputTokens - profile.outputTokens) / profile.answers;
  }

  /** How late it will be; of a size that was never seen it goes by its wait alone. */
  #rankMs(request: PolicyRequest, nowMs: number): number {
    const { latencyMs = 0, outputTokens = 1 } = this.#profiles.get(queueOf(request)) ?? {};
    const { targets, promptTokens, arrivedAtMs } = request;
    const targetMs = e2eLimitMs(targets, promptTokens, outputTokens);
    return nowMs - arrivedAtMs + latencyMs - (Number.isFinite(targetMs) ? targetMs : 0);
  }
}

/** Sizes count by powers of two. */
function queueOf({ tenantId, promptTokens }: PolicyRequest): string {
  return `${tenantId}/${Math.round(Math.log2(Math.max(1, promptTokens)))}`;
}
