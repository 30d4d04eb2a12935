import { ADAPTERS } from "../adapters/adapters.ts";
import type { Replica } from "../replicas/replica.ts";
import type { Dispatcher } from "./dispatcher.ts";
import { toPoolRequest } from "./intake.ts";
import type { Lease } from "./lease-book.ts";
import type { Offer } from "./offer.ts";
import type { PoolEffect } from "./pool-effect.ts";
import type { PoolParts } from "./pool-parts.ts";
import type { HedgeResult } from "./pool-totals.ts";
import type { PoolRequest } from "./pool-request.ts";

/** So long after a dispatch a report would know of it, had it come to its replica. */
const ARRIVAL_MS = 250;

/**
 * Sends a late request to a second replica as well, where that is worth its work: the request was
 * guaranteed, its engine may have begun it, nobody waits for the room, the budget has one left, and the
 * copy would still be in time there. Otherwise its holder goes by its prospects.
 *
 * Of the two leases one is charged to the tenant: the one that begins, or whichever is left.
 */
export class Hedger {
  readonly #parts: PoolParts;
  readonly #dispatcher: Dispatcher;

  constructor(parts: PoolParts, dispatcher: Dispatcher) {
    this.#parts = parts;
    this.#dispatcher = dispatcher;
  }

  /** Sends a copy of a lease's request, offered again as it is now, or does nothing. */
  hedge(lease: Lease, offer: Offer, nowMs: number): PoolEffect[] {
    const { totals, placement, replicas, hedgeBudget, tenants } = this.#parts;
    const refusal = this.#whyNot(lease, nowMs);
    if (refusal !== undefined) {
      totals.hedged(refusal);
      return [];
    }
    const request = this.#requestOf(lease, offer, nowMs);
    const { chosen } = placement.place(request, replicas, { nowMs, isQueueEmpty: true });
    if (chosen === undefined) {
      totals.hedged("infeasible");
      return [];
    }
    totals.hedged("sent");
    hedgeBudget.spend();
    tenants.arrives(offer.tenantId, offer.share, offer.promised ?? offer.targets, nowMs);
    return [this.#dispatcher.hedge(request, chosen, lease, nowMs)];
  }

  #whyNot(lease: Lease, nowMs: number): HedgeResult | undefined {
    const { mechanisms, leases, queue, hedgeBudget } = this.#parts;
    // What goes on is not worth three replicas.
    const isOver = lease.isLost || lease.startedAtMs !== undefined || lease.emittedTokens > 0;
    if (isOver || lease.twinId !== undefined || !lease.isStreamed) return "settled";
    if (!lease.account.isInProfile) return "out-of-profile";
    const replica = this.#parts.replicas.get(lease.replicaId);
    if (replica !== undefined && !endsWhenLeft(replica)) return "unstoppable";
    if (this.#hasNotArrived(lease, nowMs)) return "not-begun";
    const isFull = leases.isFull || this.#parts.isModelFull(lease.modelId);
    if (queue.size > 0 || isFull) return "no-room";
    return mechanisms.hedging && hedgeBudget.hasOne ? undefined : "no-budget";
  }

  /**
   * What never came there has cost nothing: it is better taken back than sent twice. Of one that never reports
   * nobody knows.
   */
  #hasNotArrived({ replicaId, dispatchNumber, dispatchedAtMs }: Lease, nowMs: number): boolean {
    const replica = this.#parts.replicas.get(replicaId);
    if (replica === undefined || replica.plain !== undefined) return false;
    if (replica.state.residents.acknowledgedNumber >= dispatchNumber) return false;
    return nowMs - replica.reportAgeMs(nowMs) - dispatchedAtMs >= ARRIVAL_MS;
  }

  /** Cut short as the first was, within the guarantee as that was, and for those alone that end what is left. */
  #requestOf(lease: Lease, offer: Offer, nowMs: number): PoolRequest {
    const { intake, replicas } = this.#parts;
    const unstoppable = [...replicas].filter((replica) => !endsWhenLeft(replica));
    const excludedReplicaIds = [
      ...offer.excludedReplicaIds,
      lease.replicaId,
      ...unstoppable.map(({ replicaId }) => replicaId),
    ];
    const outputTokensMax = lease.outputTokensMax ?? offer.outputTokensMax;
    const copy = {
      ...offer,
      excludedReplicaIds,
      ...(outputTokensMax !== undefined && { outputTokensMax }),
    };
    const request = toPoolRequest(copy, intake, this.#parts.capacity(nowMs), nowMs);
    // In two places it would depend on three replicas, and one of them is late.
    return { ...request, isInProfile: true, staysWhole: true };
  }
}

/** Whether the copy that loses costs nothing from then on. Our engines end what is left. */
function endsWhenLeft({ plain }: Replica): boolean {
  return plain === undefined || ADAPTERS[plain.engine].endsWhenLeft;
}
