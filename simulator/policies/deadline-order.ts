import { ttftLimitMs } from "../../src/slo/deadlines.ts";
import type { QueueOrder } from "./gateway-queue.ts";
import type { PolicyRequest } from "./policy.ts";

/** Prompt tokens that a tenant may send in its turn. */
const QUANTUM_TOKENS = 512;

/**
 * Tenants in turn by deficit round robin over prompt tokens (Shreedhar and Varghese, 1995), the earliest deadline
 * first within a tenant. That is how frontends queue that know deadlines but no forecast, such as NVIDIA Dynamo's
 * router queue with a policy of deadlines.
 */
export class DeadlineOrder implements QueueOrder {
  /** By tenant, whose turn it is first. */
  readonly #deficits = new Map<string, number>();

  first(waiting: Iterable<PolicyRequest>): PolicyRequest | undefined {
    const heads = headsOf(waiting);
    for (const tenant of this.#deficits.keys()) {
      // Who has nothing to send saves nothing up.
      if (!heads.has(tenant)) this.#deficits.delete(tenant);
    }
    for (const tenant of heads.keys()) {
      if (!this.#deficits.has(tenant)) this.#deficits.set(tenant, 0);
    }
    while (heads.size > 0) {
      for (const [tenant, deficit] of this.#deficits) {
        const request = heads.get(tenant);
        if (request === undefined) continue;
        if (request.promptTokens <= deficit) {
          this.#deficits.set(tenant, deficit - request.promptTokens);
          return request;
        }
        // Its turn is over: it goes to the end, with more to spend next time.
        this.#deficits.delete(tenant);
        this.#deficits.set(tenant, deficit + QUANTUM_TOKENS);
      }
    }
    return undefined;
  }
}

/** Of each tenant the request whose first token is due first. */
function headsOf(waiting: Iterable<PolicyRequest>): Map<string, PolicyRequest> {
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
