import { ttftLimitMs } from "../../src/slo/deadlines.ts";
import { leastOutstandingBelow } from "./least-outstanding-below.ts";
import type {
  Policy,
  PolicyMoment,
  PolicyReplica,
  PolicyRequest,
  PolicyVerdict,
} from "./policy.ts";
import { REJECTED, WAITING } from "./policy.ts";

/** Prompt tokens that a tenant may send in its turn. */
const QUANTUM_TOKENS = 512;

/**
 * A queue at the gateway before replicas that take so many requests each: tenants in turn by deficit round
 * robin over prompt tokens (Shreedhar and Varghese, 1995), the earliest deadline first within a tenant, and
 * nothing is ever dropped. That is how frontends queue that know deadlines but no forecast, such as
 * NVIDIA Dynamo's router queue with a policy of deadlines.
 */
export class DeadlineQueue implements Policy {
  readonly #outstandingMax: number;
  /** By tenant, whose turn it is first. */
  readonly #deficits = new Map<string, number>();

  constructor({ outstandingMax }: { readonly outstandingMax: number }) {
    this.#outstandingMax = outstandingMax;
  }

  choose(_request: PolicyRequest, replicas: readonly PolicyReplica[]): PolicyVerdict {
    return replicas.length === 0 ? REJECTED : WAITING;
  }

  next(
    waiting: readonly PolicyRequest[],
    replicas: readonly PolicyReplica[],
    _moment: PolicyMoment,
  ): { readonly request: PolicyRequest; readonly replicaIndex: number } | undefined {
    const replica = leastOutstandingBelow(replicas, this.#outstandingMax);
    if (replica === undefined) return undefined;
    const heads = headsOf(waiting);
    for (const tenant of this.#deficits.keys()) {
      // Who has nothing to send saves nothing up.
      if (!heads.has(tenant)) this.#deficits.delete(tenant);
    }
    for (const tenant of heads.keys()) {
      if (!this.#deficits.has(tenant)) this.#deficits.set(tenant, 0);
    }
    for (;;) {
      for (const [tenant, deficit] of this.#deficits) {
        const request = heads.get(tenant);
        if (request === undefined) continue;
        if (request.promptTokens <= deficit) {
          this.#deficits.set(tenant, deficit - request.promptTokens);
          return { request, replicaIndex: replica.replicaIndex };
        }
        // Its turn is over: it goes to the end, with more to spend next time.
        this.#deficits.delete(tenant);
        this.#deficits.set(tenant, deficit + QUANTUM_TOKENS);
      }
    }
  }
}

/** Of each tenant the request whose first token is due first. */
function headsOf(waiting: readonly PolicyRequest[]): Map<string, PolicyRequest> {
  const heads = new Map<string, PolicyRequest>();
  for (const request of waiting) {
    const head = heads.get(request.tenantId);
    if (head === undefined || dueAtMs(request) < dueAtMs(head))
      heads.set(request.tenantId, request);
  }
  return heads;
}

function dueAtMs({ arrivedAtMs, targets, promptTokens }: PolicyRequest): number {
  return arrivedAtMs + ttftLimitMs(targets, promptTokens);
}
