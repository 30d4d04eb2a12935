import { assert } from "../base/assert.ts";
import type { LeaseId, ReplicaId, RequestId } from "../protocol/ids.ts";

/** A request's right to its slot on a replica, until an instant. */
export interface Lease {
  readonly leaseId: LeaseId;
  readonly requestId: RequestId;
  readonly replicaId: ReplicaId;
  /** Counts the dispatches of a pool's epoch, over all replicas. */
  readonly dispatchNumber: number;
  readonly promptBytes: number;
  readonly dispatchedAtMs: number;
  readonly expiresAtMs: number;
}

/**
 * The leases that are alive, in order of expiry: all live equally long, so that is the order in
 * which they were given.
 */
export class LeaseBook implements Iterable<Lease> {
  readonly #leases = new Map<LeaseId, Lease>();
  readonly #leasesMax: number;

  constructor(leasesMax: number) {
    this.#leasesMax = leasesMax;
  }

  get size(): number {
    return this.#leases.size;
  }

  get isFull(): boolean {
    return this.#leases.size >= this.#leasesMax;
  }

  get nextExpiryAtMs(): number | undefined {
    return this.#oldest()?.expiresAtMs;
  }

  add(lease: Lease): void {
    assert(!this.isFull, "a lease is given only while there is room for it");
    this.#leases.set(lease.leaseId, lease);
  }

  /** Takes a lease out; `undefined` when it was settled before, has expired, or was never given. */
  remove(leaseId: LeaseId): Lease | undefined {
    const lease = this.#leases.get(leaseId);
    this.#leases.delete(leaseId);
    return lease;
  }

  /** Takes out every lease whose instant has come. */
  removeExpired(nowMs: number): Lease[] {
    const expired: Lease[] = [];
    for (let lease = this.#oldest(); lease !== undefined; lease = this.#oldest()) {
      if (lease.expiresAtMs > nowMs) break;
      expired.push(lease);
      this.#leases.delete(lease.leaseId);
    }
    return expired;
  }

  /** Takes out every lease on one replica. */
  removeOf(replicaId: ReplicaId): Lease[] {
    const removed = [...this.#leases.values()].filter((lease) => lease.replicaId === replicaId);
    for (const { leaseId } of removed) this.#leases.delete(leaseId);
    return removed;
  }

  [Symbol.iterator](): Iterator<Lease> {
    return this.#leases.values();
  }

  checkInvariants(): void {
    assert(this.#leases.size <= this.#leasesMax, "the leases are within their bound");
  }

  #oldest(): Lease | undefined {
    return this.#leases.values().next().value;
  }
}
