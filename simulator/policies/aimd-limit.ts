import { LeastOutstanding } from "./load-balancers.ts";
import {
  type Policy,
  type PolicyMoment,
  type PolicyReplica,
  type PolicyRequest,
  type PolicyVerdict,
  REJECTED,
} from "./policy.ts";

const BACKOFF_RATIO = 0.9;

/**
 * A concurrency limit of the whole pool that learns, before least outstanding: additive increase,
 * multiplicative decrease as in Netflix' concurrency-limits (`AIMDLimit`, back-off 0.9).
 *
 * There a request counts as dropped when it fails or takes longer than a timeout. No one timeout
 * fits answers of 10 and of 2,000 tokens, so here it counts as dropped when it breaks its own targets.
 */
export class AimdLimit implements Policy {
  #limit: number;
  readonly #balancer = new LeastOutstanding();
  /** By request, how many were in flight once it was. */
  readonly #inFlight = new Map<string, number>();

  constructor(options: { readonly initialLimit: number }) {
    this.#limit = options.initialLimit;
  }

  /** Requests that may be in flight at present. */
  get limit(): number {
    return this.#limit;
  }

  choose(
    request: PolicyRequest,
    replicas: readonly PolicyReplica[],
    moment: PolicyMoment,
  ): PolicyVerdict {
    if (this.#inFlight.size >= this.#limit) return REJECTED;
    const verdict = this.#balancer.choose(request, replicas, moment);
    if (verdict.kind === "dispatch") {
      this.#inFlight.set(request.requestId, this.#inFlight.size + 1);
    }
    return verdict;
  }

  ended(request: PolicyRequest, { isGood }: { readonly isGood: boolean }): void {
    const inFlight = this.#inFlight.get(request.requestId);
    if (inFlight === undefined) return;
    this.#inFlight.delete(request.requestId);
    if (!isGood) {
      const lowered = Math.min(this.#limit - 1, Math.floor(this.#limit * BACKOFF_RATIO));
      this.#limit = Math.max(1, lowered);
    } else if (inFlight * 2 >= this.#limit) {
      this.#limit += 1;
    }
  }
}
