import { assert } from "../base/assert.ts";
import type { ReplicaId } from "../protocol/ids.ts";

/**
 * So many requests of a replica of weight 1 may one be behind: who could not be given its part for long, or
 * comes anew, does not get everything until it has caught up.
 */
const TURNS_BEHIND_MAX = 4;

/** Where each replica's turns stand; who is not there, or further behind than may be, stands at the least that may be. */
export interface TurnsState {
  readonly at: Map<ReplicaId, number>;
  latest: number;
}

/** Nobody has had a turn. */
export function noTurns(): TurnsState {
  return { at: new Map(), latest: 0 };
}

/**
 * Whose turn it is where a pool's replicas have weights: each request that a replica gets puts its next turn off
 * by 1/weight, and the earliest turn is next. So each gets its part exactly, at whatever load, and evenly spaced
 * (weighted fair queueing: Demers, Keshav and Shenker, 1989). Requests that went where they did for another
 * reason count as well.
 */
export class Turns {
  readonly #state: TurnsState;

  constructor(state: TurnsState = noTurns()) {
    this.#state = state;
  }

  /** When the next turn of a replica is, among those of its pool; `weight` is at least 1. */
  nextOf(replicaId: ReplicaId, weight: number): number {
    const least = this.#state.latest - TURNS_BEHIND_MAX;
    return Math.max(this.#state.at.get(replicaId) ?? least, least) + 1 / weight;
  }

  /** It has been given a request. */
  take(replicaId: ReplicaId, weight: number): void {
    assert(weight >= 1, "the least weight of a pool is 1");
    const next = this.nextOf(replicaId, weight);
    this.#state.at.set(replicaId, next);
    this.#state.latest = Math.max(this.#state.latest, next);
  }

  /** Forgets all but those that are in use. */
  keepOnly(replicaIds: ReadonlySet<ReplicaId>): void {
    for (const replicaId of this.#state.at.keys()) {
      if (!replicaIds.has(replicaId)) this.#state.at.delete(replicaId);
    }
  }
}
