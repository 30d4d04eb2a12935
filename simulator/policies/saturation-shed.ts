import { LeastOutstanding } from "./load-balancers.ts";
import {
  type Policy,
  type PolicyMoment,
  type PolicyReplica,
  type PolicyRequest,
  type PolicyVerdict,
  REJECTED,
} from "./policy.ts";

const QUEUED_MAX = 5;
const USED_KV_RATIO_MAX = 0.8;

/**
 * Rejects while the pool is saturated, before least outstanding among the replicas that are not: the
 * utilization detector of llm-d's router with its thresholds, 5 waiting requests and 0.8 of the KV
 * cache. Requests sent since the scrape count as waiting, as there. Scrapes never fail here, so its
 * rule for stale ones is left out.
 */
export class SaturationShed implements Policy {
  readonly #balancer = new LeastOutstanding();
  readonly #thresholdRatio: number;

  /** `thresholdRatio` scales both thresholds, which deployments tune. */
  constructor(thresholdRatio = 1) {
    this.#thresholdRatio = thresholdRatio;
  }

  choose(
    request: PolicyRequest,
    replicas: readonly PolicyReplica[],
    moment: PolicyMoment,
  ): PolicyVerdict {
    if (replicas.length === 0) return REJECTED;
    const total = replicas.reduce((sum, replica) => sum + saturationOf(replica), 0);
    if (total / replicas.length >= this.#thresholdRatio) return REJECTED;
    const below = replicas.filter((replica) => saturationOf(replica) <= this.#thresholdRatio);
    return this.#balancer.choose(request, below, moment);
  }
}

function saturationOf(replica: PolicyReplica): number {
  const { outstanding, queuedRequests, runningRequests, usedKvRatio } = replica;
  const unseen = Math.max(0, outstanding - queuedRequests - runningRequests);
  return Math.max((queuedRequests + unseen) / QUEUED_MAX, usedKvRatio / USED_KV_RATIO_MAX);
}
