import { assert } from "../base/assert.ts";
import type { ReplicaId } from "../protocol/ids.ts";
import type { ReplicaSettings } from "./replica.ts";
import { Replica } from "./replica.ts";

/**
 * The replicas of a pool: those in use, at most `replicasMax`, and those that left the
 * configuration while requests of ours still run there.
 */
export class ReplicaSet implements Iterable<Replica> {
  readonly #replicas = new Map<ReplicaId, Replica>();
  readonly #replicasMax: number;

  constructor(replicasMax: number) {
    this.#replicasMax = replicasMax;
  }

  /** Follows the configuration; replicas beyond the bound are not used. */
  configure(configured: readonly ReplicaSettings[]): void {
    const used = new Map(
      configured.slice(0, this.#replicasMax).map((settings) => [settings.replicaId, settings]),
    );
    for (const replica of this.#replicas.values()) {
      if (used.has(replica.replicaId)) continue;
      replica.remove();
      this.#forgetIfDone(replica);
    }
    for (const [replicaId, settings] of used) {
      const known = this.#replicas.get(replicaId);
      if (known === undefined) this.#replicas.set(replicaId, new Replica(settings));
      else known.configure(settings);
    }
  }

  get(replicaId: ReplicaId): Replica | undefined {
    return this.#replicas.get(replicaId);
  }

  /** Returns the replica in use that has this URL. */
  at(endpointUrl: string): Replica | undefined {
    for (const replica of this.#replicas.values()) {
      if (replica.endpointUrl === endpointUrl && !replica.isRemoved) return replica;
    }
    return undefined;
  }

  [Symbol.iterator](): Iterator<Replica> {
    return this.#replicas.values();
  }

  /** Gives back the slot of a dispatch, and forgets a removed replica with its last request. */
  release(slot: { readonly replicaId: ReplicaId; readonly dispatchNumber: number }): void {
    const replica = this.#replicas.get(slot.replicaId);
    assert(replica !== undefined, "a replica is known while a request holds a slot there");
    replica.release(slot.dispatchNumber);
    this.#forgetIfDone(replica);
  }

  /** Returns the ready replicas that have a free slot. */
  openAt(nowMs: number): Replica[] {
    return [...this.#replicas.values()].filter(
      (replica) => replica.freeSlots > 0 && replica.stateAt(nowMs) === "ready",
    );
  }

  /** Requests that end in a millisecond on all ready replicas; 0 while nothing is known of it. */
  releasesPerMs(nowMs: number): number {
    let total = 0;
    for (const replica of this.#replicas.values()) {
      if (replica.stateAt(nowMs) === "ready") total += replica.releasesPerMs ?? 0;
    }
    return total;
  }

  checkInvariants(): void {
    let usedCount = 0;
    for (const replica of this.#replicas.values()) {
      replica.checkInvariants();
      if (!replica.isRemoved) usedCount += 1;
      else assert(replica.outstanding > 0, "a removed replica stays only for its requests");
    }
    assert(usedCount <= this.#replicasMax, "the replicas in use are within their bound");
  }

  #forgetIfDone(replica: Replica): void {
    if (replica.isRemoved && replica.outstanding === 0) this.#replicas.delete(replica.replicaId);
  }
}
