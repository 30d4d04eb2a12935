import { assert } from "../base/assert.ts";
import type { LeaseId, ModelId, ReplicaId, RequestId, TenantId } from "../protocol/ids.ts";

/** A request's right to its slot on a replica, until an instant, and what was foreseen of it. */
export interface Lease {
  readonly leaseId: LeaseId;
  readonly requestId: RequestId;
  readonly tenantId: TenantId;
  readonly modelId: ModelId;
  readonly replicaId: ReplicaId;
  /** Counts the dispatches of a pool's epoch, over all replicas. */
  readonly dispatchNumber: number;
  readonly promptBytes: number;
  readonly outputTokensMax: number | undefined;
  readonly isInProfile: boolean;
  /** What was charged for it, until it is corrected. */
  readonly costMs: number;
  /** The forecast without margin, and the targets it was held against. */
  readonly forecast: { readonly ttftMs: number; readonly tpotMs: number };
  readonly targets: { readonly ttftMs: number; readonly tpotMs: number };
  readonly profile: string;
  readonly dispatchedAtMs: number;
  readonly expiresAtMs: number;
  startedAtMs?: number;
  /** True once its caller was asked to stop it; nobody is displaced twice. */
  isDisplaced: boolean;
}

/** What a {@link LeaseBook} remembers: leases in the order in which they were given. */
export type LeaseBookState = Map<LeaseId, Lease>;

/**
 * The leases that are alive, in order of expiry: all live equally long, so that is the order in
 * which they were given.
 */
export class LeaseBook implements Iterable<Lease> {
  readonly state: LeaseBookState;
  readonly #leasesMax: number;

  constructor(leasesMax: number, state: LeaseBookState = new Map()) {
    this.#leasesMax = leasesMax;
    this.state = state;
  }

  get size(): number {
    return this.state.size;
  }

  get isFull(): boolean {
    return this.state.size >= this.#leasesMax;
  }

  get nextExpiryAtMs(): number | undefined {
    return this.#oldest()?.expiresAtMs;
  }

  get(leaseId: LeaseId): Lease | undefined {
    return this.state.get(leaseId);
  }

  add(lease: Lease): void {
    assert(!this.isFull, "a lease is given only while there is room for it");
    this.state.set(lease.leaseId, lease);
  }

  /** Takes a lease out; `undefined` when it was settled before, has expired, or was never given. */
  remove(leaseId: LeaseId): Lease | undefined {
    const lease = this.state.get(leaseId);
    this.state.delete(leaseId);
    return lease;
  }

  /** Takes out every lease whose instant has come. */
  removeExpired(nowMs: number): Lease[] {
    const expired: Lease[] = [];
    for (let lease = this.#oldest(); lease !== undefined; lease = this.#oldest()) {
      if (lease.expiresAtMs > nowMs) break;
      expired.push(lease);
      this.state.delete(lease.leaseId);
    }
    return expired;
  }

  /** Takes out every lease on one replica. */
  removeOf(replicaId: ReplicaId): Lease[] {
    const removed = [...this.state.values()].filter((lease) => lease.replicaId === replicaId);
    for (const { leaseId } of removed) this.state.delete(leaseId);
    return removed;
  }

  [Symbol.iterator](): Iterator<Lease> {
    return this.state.values();
  }

  checkInvariants(): void {
    assert(this.state.size <= this.#leasesMax, "the leases are within their bound");
  }

  #oldest(): Lease | undefined {
    return this.state.values().next().value;
  }
}
