import { e2eLimitMs } from "../../src/slo/deadlines.ts";
import { leastOutstandingBelow } from "./least-outstanding-below.ts";
import type {
  Policy,
  PolicyEnding,
  PolicyMoment,
  PolicyReplica,
  PolicyRequest,
  PolicyVerdict,
} from "./policy.ts";
import { REJECTED, WAITING } from "./policy.ts";

/** What was seen of requests of one kind. */
interface Profile {
  answers: number;
  latencyMs: number;
  outputTokens: number;
}

/**
 * A queue at the gateway that sends first what is expected to break its targets most: by waited + expected
 * latency − target, the largest first, where the target is TTFT + TPOT × output tokens. After AIBrix'
 * `SLOQueue` (`pkg/plugins/gateway/algorithms`): a queue for each size of request by powers of two, its
 * oldest one standing for it, no limit on how late anything is. There a profile made before gives the latency
 * and the length that are expected; here they are the means of what was seen of that size and tenant.
 */
export class MostViolatedFirst implements Policy {
  readonly #outstandingMax: number;
  readonly #profiles = new Map<string, Profile>();

  constructor({ outstandingMax }: { readonly outstandingMax: number }) {
    this.#outstandingMax = outstandingMax;
  }

  choose(_request: PolicyRequest, replicas: readonly PolicyReplica[]): PolicyVerdict {
    return replicas.length === 0 ? REJECTED : WAITING;
  }

  next(
    waiting: readonly PolicyRequest[],
    replicas: readonly PolicyReplica[],
    { nowMs }: PolicyMoment,
  ): { readonly request: PolicyRequest; readonly replicaIndex: number } | undefined {
    const replica = leastOutstandingBelow(replicas, this.#outstandingMax);
    if (replica === undefined) return undefined;
    const queues = new Set<string>();
    let first: { readonly request: PolicyRequest; readonly rankMs: number } | undefined;
    for (const request of waiting) {
      const queue = queueOf(request);
      if (queues.has(queue)) continue;
      queues.add(queue);
      const rankMs = this.#rankMs(request, nowMs);
      if (first === undefined || rankMs > first.rankMs) first = { request, rankMs };
    }
    return first && { request: first.request, replicaIndex: replica.replicaIndex };
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
