import type { Outcome } from "../../src/pool/offer.ts";
import type { LeaseId, ReplicaId } from "../../src/protocol/ids.ts";
import { loadCeiling } from "../../src/routing/bounded-load.ts";
import type { Dispatcher, DispatchWatch, VerdictListener } from "../dispatcher.ts";

const ONE_OF_EQUALS = { sequences: 0, capacity: 1, capacityRatio: 1 } as const;

/** How many of all that are outstanding one of so many equal replicas may have, by the core's own rule. */
export function ceilingOf(outstanding: number, replicas: number): number {
  return loadCeiling(ONE_OF_EQUALS, {
    sequences: outstanding - 1,
    capacity: replicas,
    meanCapacity: 1,
  });
}

/**
 * Counts how often a replica is given more than its bounded share of what is outstanding, once `learningDispatches`
 * have gone by: a core that believes one of several equals to be faster gives it more.
 */
export class BalanceWatch implements DispatchWatch {
  readonly #replicas: number;
  readonly #learningDispatches: number;
  readonly #replicaOf = new Map<LeaseId, ReplicaId>();
  readonly #outstanding = new Map<ReplicaId, number>();
  /** How often each replica was given a request. */
  readonly dispatchesTo = new Map<ReplicaId, number>();
  /** The most that each of them had outstanding at once. */
  readonly mostAt = new Map<ReplicaId, number>();
  dispatches = 0;
  aboveCeiling = 0;

  constructor(replicas: number, learningDispatches = 0) {
    this.#replicas = replicas;
    this.#learningDispatches = learningDispatches;
  }

  /** A listener that hears what the given one does, and is counted. */
  listener(listener: VerdictListener): VerdictListener {
    return {
      ...listener,
      dispatched: (requestId, leaseId, dispatch) => {
        this.#add(leaseId, dispatch.replicaId);
        listener.dispatched(requestId, leaseId, dispatch);
      },
    };
  }

  /** The same dispatcher, whose settlements are counted. */
  dispatcher<Kind extends Dispatcher>(dispatcher: Kind): Kind {
    const settle = dispatcher.settle.bind(dispatcher);
    dispatcher.settle = (leaseId: LeaseId, outcome: Outcome) => {
      this.#remove(leaseId);
      settle(leaseId, outcome);
    };
    return dispatcher;
  }

  #add(leaseId: LeaseId, replicaId: ReplicaId): void {
    const outstanding = (this.#outstanding.get(replicaId) ?? 0) + 1;
    this.#outstanding.set(replicaId, outstanding);
    this.mostAt.set(replicaId, Math.max(this.mostAt.get(replicaId) ?? 0, outstanding));
    this.#replicaOf.set(leaseId, replicaId);
    this.dispatches += 1;
    this.dispatchesTo.set(replicaId, (this.dispatchesTo.get(replicaId) ?? 0) + 1);
    if (this.dispatches <= this.#learningDispatches) return;
    if (outstanding > ceilingOf(this.#replicaOf.size, this.#replicas)) this.aboveCeiling += 1;
  }

  #remove(leaseId: LeaseId): void {
    const replicaId = this.#replicaOf.get(leaseId);
    if (replicaId === undefined) return;
    this.#replicaOf.delete(leaseId);
    this.#outstanding.set(replicaId, (this.#outstanding.get(replicaId) ?? 0) - 1);
  }
}
