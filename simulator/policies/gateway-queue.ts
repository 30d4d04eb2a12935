import type {
  Policy,
  PolicyEnding,
  PolicyMoment,
  PolicyReplica,
  PolicyRequest,
  PolicySend,
  PolicyVerdict,
} from "./policy.ts";
import { REJECTED } from "./policy.ts";

/** Who of those that wait is sent next. */
export interface QueueOrder {
  /** One of them, who came in this order; `undefined` only where nobody waits. */
  first(waiting: Iterable<PolicyRequest>, nowMs: number): PolicyRequest | undefined;
  /** Is told once of each request that was sent. */
  ended?(request: PolicyRequest, ending: PolicyEnding): void;
}

/**
 * A queue at the gateway before replicas that take so many requests each: whom its order names goes where the
 * fewest are, and nothing is ever dropped.
 */
export class GatewayQueue implements Policy {
  readonly #outstandingMax: number;
  readonly #order: QueueOrder;

  constructor(order: QueueOrder, { outstandingMax }: { readonly outstandingMax: number }) {
    this.#order = order;
    this.#outstandingMax = outstandingMax;
  }

  choose(_request: PolicyRequest, replicas: readonly PolicyReplica[]): PolicyVerdict {
    return replicas.length === 0 ? REJECTED : { kind: "wait" };
  }

  next(
    waiting: Iterable<PolicyRequest>,
    replicas: readonly PolicyReplica[],
    { nowMs }: PolicyMoment,
  ): PolicySend | undefined {
    const replica = this.#roomiestOf(replicas);
    const request = replica && this.#order.first(waiting, nowMs);
    return request && { request, replicaIndex: replica.replicaIndex };
  }

  ended(request: PolicyRequest, ending: PolicyEnding): void {
    this.#order.ended?.(request, ending);
  }

  /** The one with the fewest requests, the first of equals; none where all are full. */
  #roomiestOf(replicas: readonly PolicyReplica[]): PolicyReplica | undefined {
    let least: PolicyReplica | undefined;
    for (const replica of replicas) {
      if (replica.outstanding >= this.#outstandingMax) continue;
      if (least === undefined || replica.outstanding < least.outstanding) least = replica;
    }
    return least;
  }
}
