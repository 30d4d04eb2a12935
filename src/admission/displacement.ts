import { assert } from "../base/assert.ts";
import type { KeyedHeapState } from "../base/heap.ts";
import { KeyedHeap } from "../base/heap.ts";
import type { LeaseId, ReplicaId, RequestId } from "../protocol/ids.ts";

/** An excess request on a replica that has no token yet. */
export interface UnstartedExcess {
  readonly leaseId: LeaseId;
  readonly requestId: RequestId;
  readonly replicaId: ReplicaId;
}

/** What {@link Displacement} remembers. */
export interface DisplacementState {
  readonly unstarted: Map<LeaseId, UnstartedExcess>;
  /** Per replica its leases of these, the newest first; no replica's is empty. */
  readonly replicas: Map<ReplicaId, KeyedHeapState<LeaseId>>;
  /** Dispatches so far. */
  dispatched: number;
  /** When a replica was last made to give one up. */
  readonly lastAtMs: Map<ReplicaId, number>;
  /** Requests that were displaced, earliest first. */
  readonly displaced: Map<RequestId, true>;
}

/** The bounds of a {@link Displacement}. */
export interface DisplacementLimits {
  /** Between two at one replica: what the first freed has to show in a report. */
  readonly intervalMs: number;
  /** Forecasts that one search may cost. */
  readonly checksMax: number;
  /** Displaced requests remembered. One forgotten has ended long ago, or may be displaced again. */
  readonly displacedMax: number;
}

const DEFAULTS: DisplacementLimits = { intervalMs: 100, checksMax: 8, displacedMax: 10_000 };

/** No excess anywhere. */
export function emptyDisplacement(): DisplacementState {
  return {
    unstarted: new Map(),
    replicas: new Map(),
    dispatched: 0,
    lastAtMs: new Map(),
    displaced: new Map(),
  };
}

/**
 * Finds the excess request that has to give way to one in profile, which would be infeasible
 * otherwise: the newest dispatch of a replica, as long as it has no token. Whoever is displaced is
 * offered again, and never displaced a second time.
 */
export class Displacement {
  readonly state: DisplacementState;
  readonly #limits: DisplacementLimits;
  readonly #leasesOf = new Map<ReplicaId, KeyedHeap<LeaseId>>();

  constructor(
    limits: Partial<DisplacementLimits> = {},
    state: DisplacementState = emptyDisplacement(),
  ) {
    this.#limits = { ...DEFAULTS, ...limits };
    this.state = state;
    for (const [replicaId, leases] of state.replicas) {
      this.#leasesOf.set(replicaId, new KeyedHeap(leases));
    }
  }

  /** An excess request goes to a replica. One that was displaced before stays there. */
  dispatched(excess: UnstartedExcess): void {
    const { leaseId, requestId, replicaId } = excess;
    assert(!this.state.unstarted.has(leaseId), "a lease is dispatched once");
    if (this.state.displaced.has(requestId)) return;
    this.state.unstarted.set(leaseId, { ...excess });
    let leases = this.#leasesOf.get(replicaId);
    if (leases === undefined) {
      leases = new KeyedHeap<LeaseId>();
      this.#leasesOf.set(replicaId, leases);
      this.state.replicas.set(replicaId, leases.state);
    }
    this.state.dispatched += 1;
    leases.set(leaseId, -this.state.dispatched);
  }

  /** A lease has its first token or is over; any lease may be named. */
  left(leaseId: LeaseId): void {
    const excess = this.state.unstarted.get(leaseId);
    if (excess === undefined) return;
    this.state.unstarted.delete(leaseId);
    const leases = this.#leasesOf.get(excess.replicaId);
    assert(leases?.delete(leaseId) === true, "a lease is on the replica that it names");
    if (leases.size > 0) return;
    this.#leasesOf.delete(excess.replicaId);
    this.state.replicas.delete(excess.replicaId);
  }

  /** Forgets a replica that is no longer there. */
  removeReplica(replicaId: ReplicaId): void {
    this.state.lastAtMs.delete(replicaId);
  }

  /**
   * Chooses whom to displace, if anybody. `wouldHelp` asks whether the request in profile would be
   * feasible on that replica without the other; it is asked of few, the newest dispatches first.
   */
  choose(
    wouldHelp: (excess: UnstartedExcess) => boolean,
    nowMs: number,
  ): UnstartedExcess | undefined {
    for (const excess of this.#newest(nowMs)) {
      if (!wouldHelp(excess)) continue;
      this.#displace(excess, nowMs);
      return excess;
    }
    return undefined;
  }

  checkInvariants(): void {
    const { unstarted, replicas, displaced } = this.state;
    assert(displaced.size <= this.#limits.displacedMax, "displaced requests are bounded");
    assert(replicas.size === this.#leasesOf.size, "every replica's leases are remembered");
    let leasesOnReplicas = 0;
    for (const [replicaId, leases] of this.#leasesOf) {
      leases.checkInvariants();
      assert(leases.size > 0, "a replica without leases is not remembered");
      leasesOnReplicas += leases.size;
      for (const leaseId of leases.keys()) {
        assert(unstarted.get(leaseId)?.replicaId === replicaId, "a lease is on its replica");
      }
    }
    assert(leasesOnReplicas === unstarted.size, "every lease is on a replica");
  }

  /** The newest of each replica that may give one up, newest first. */
  #newest(nowMs: number): UnstartedExcess[] {
    const { unstarted, lastAtMs, displaced } = this.state;
    const newest: { readonly excess: UnstartedExcess; readonly order: number }[] = [];
    for (const [replicaId, leases] of this.#leasesOf) {
      if (nowMs - (lastAtMs.get(replicaId) ?? -Infinity) < this.#limits.intervalMs) continue;
      const excess = leases.first === undefined ? undefined : unstarted.get(leases.first);
      // A request may be here by two leases, of which the older one is not settled yet.
      if (excess === undefined || displaced.has(excess.requestId)) continue;
      newest.push({ excess, order: leases.firstPriority ?? 0 });
    }
    newest.sort((a, b) => a.order - b.order);
    return newest.slice(0, this.#limits.checksMax).map(({ excess }) => excess);
  }

  #displace({ leaseId, requestId, replicaId }: UnstartedExcess, nowMs: number): void {
    const { lastAtMs, displaced } = this.state;
    this.left(leaseId);
    lastAtMs.set(replicaId, nowMs);
    displaced.set(requestId, true);
    if (displaced.size <= this.#limits.displacedMax) return;
    const [oldest] = displaced.keys();
    if (oldest !== undefined) displaced.delete(oldest);
  }
}
