import { LeastOutstanding } from "./load-balancers.ts";
import {
  type Policy,
  type PolicyMoment,
  type PolicyReplica,
  type PolicyRequest,
  type PolicyVerdict,
  REJECTED,
} from "./policy.ts";

/** How much of its rate a tenant may save up unless told otherwise. */
const BURST_MS = 10_000;

/**
 * A token bucket of requests for each tenant before least outstanding: the limit in requests per
 * minute that most gateways have. With rates from what each tenant's requests really cost it is an
 * oracle that no operator has, until the tenant's requests change. A tenant without a rate is rejected.
 */
export class RateBucket implements Policy {
  readonly #requestsPerMs: ReadonlyMap<string, number>;
  readonly #balancer = new LeastOutstanding();
  readonly #buckets = new Map<string, { requests: number; filledAtMs: number }>();

  readonly #burstMs: number;

  constructor(options: {
    readonly requestsPerMs: ReadonlyMap<string, number>;
    readonly burstMs?: number;
  }) {
    this.#burstMs = options.burstMs ?? BURST_MS;
    this.#requestsPerMs = options.requestsPerMs;
  }

  choose(
    request: PolicyRequest,
    replicas: readonly PolicyReplica[],
    moment: PolicyMoment,
  ): PolicyVerdict {
    if (replicas.length === 0) return REJECTED;
    if (!this.#take(request.tenantId, moment.nowMs)) return REJECTED;
    return this.#balancer.choose(request, replicas, moment);
  }

  #take(tenantId: string, nowMs: number): boolean {
    const rate = this.#requestsPerMs.get(tenantId);
    if (rate === undefined) return false;
    const requestsMax = Math.max(1, rate * this.#burstMs);
    const bucket = this.#buckets.get(tenantId) ?? { requests: requestsMax, filledAtMs: nowMs };
    this.#buckets.set(tenantId, bucket);
    const filled = bucket.requests + rate * (nowMs - bucket.filledAtMs);
    bucket.requests = Math.min(requestsMax, filled);
    bucket.filledAtMs = nowMs;
    if (bucket.requests < 1) return false;
    bucket.requests -= 1;
    return true;
  }
}
