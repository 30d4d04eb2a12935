import { LeastOutstanding } from "./load-balancers.ts";
import {
  type Policy,
  type PolicyMoment,
  type PolicyReplica,
  type PolicyRequest,
  type PolicyVerdict,
  REJECTED,
} from "./policy.ts";

/**
 * Least outstanding with a fixed limit for each replica; rejects when all are at it. The limit that
 * is best for a workload is found by trying: it holds for that mix of requests and that hardware.
 */
export class ConcurrencyLimit implements Policy {
  readonly #outstandingMax: number;
  readonly #balancer = new LeastOutstanding();

  constructor(options: { readonly outstandingMax: number }) {
    this.#outstandingMax = options.outstandingMax;
  }

  choose(
    request: PolicyRequest,
    replicas: readonly PolicyReplica[],
    moment: PolicyMoment,
  ): PolicyVerdict {
    const isOpen = replicas.some(({ outstanding }) => outstanding < this.#outstandingMax);
    return isOpen ? this.#balancer.choose(request, replicas, moment) : REJECTED;
  }
}
