import { assert } from "../base/assert.ts";
import type { LeaseId, ReplicaId, RequestId } from "../protocol/ids.ts";

/** An excess request on a replica that has no token yet. */
export interface UnstartedExcess {
  readonly leaseId: LeaseId;
  readonly requestId: RequestId;
  readonly replicaId: ReplicaId;
}

/** What {@link Displacement} remembers. */
export interface DisplacementState {
  /** In the order of their dispatches. */
  readonly unstarted: Map<LeaseId, UnstartedExcess>;
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
  return { unstarted: new Map(), lastAtMs: new Map(), displaced: new Map() };
}

/**
 * Finds the excess request that has to give way to one in profile, which would be infeasible
 * otherwise: the newest dispatch of a replica, as long as it has no token. Whoever is displaced is
 * offered again, and never displaced a second time.
 */
export class Displacement {
  readonly state: DisplacementState;
  readonly #limits: DisplacementLimits;

  constructor(
    limits: Partial<DisplacementLimits> = {},
    state: DisplacementState = emptyDisplacement(),
  ) {
    this.#limits = { ...DEFAULTS, ...limits };
    this.state = state;
  }

  /** An excess request goes to a replica. One that was displaced before stays there. */
  dispatched(excess: UnstartedExcess): void {
    if (this.state.displaced.has(excess.requestId)) return;
    this.state.unstarted.set(excess.leaseId, { ...excess });
  }

  /** A lease has its first token or is over; any lease may be named. */
  left(leaseId: LeaseId): void {
    this.state.unstarted.delete(leaseId);
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
    const { unstarted, displaced } = this.state;
    assert(displaced.size <= this.#limits.displacedMax, "displaced requests are bounded");
    for (const [leaseId, excess] of unstarted) {
      assert(excess.leaseId === leaseId, "a lease is known by its own name");
      assert(!displaced.has(excess.requestId), "nobody is displaced twice");
    }
  }

  /** The newest of each replica that may give one up, newest first. */
  #newest(nowMs: number): UnstartedExcess[] {
    const newestOf = new Map<ReplicaId, UnstartedExcess>();
    for (const excess of this.state.unstarted.values()) {
      const { replicaId } = excess;
      if (nowMs - (this.state.lastAtMs.get(replicaId) ?? -Infinity) < this.#limits.intervalMs)
        continue;
      // Deleted first, so that the map is in the order of these, not of each replica's oldest.
      newestOf.delete(replicaId);
      newestOf.set(replicaId, excess);
    }
    return [...newestOf.values()].toReversed().slice(0, this.#limits.checksMax);
  }

  #displace({ leaseId, requestId, replicaId }: UnstartedExcess, nowMs: number): void {
    const { unstarted, lastAtMs, displaced } = this.state;
    unstarted.delete(leaseId);
    lastAtMs.set(replicaId, nowMs);
    displaced.set(requestId, true);
    if (displaced.size <= this.#limits.displacedMax) return;
    const [oldest] = displaced.keys();
    if (oldest !== undefined) displaced.delete(oldest);
  }
}
