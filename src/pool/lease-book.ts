import { assert } from "../base/assert.ts";
import type { FairAccount } from "../admission/waiting-request.ts";
import type { PastForecast } from "../forecast/calibration.ts";
import type { LeaseId, ModelId, ReplicaId, RequestId, TenantId } from "../protocol/ids.ts";

import type { Operation } from "../protocol/operation.ts";
import type { ForeseenPace } from "./foreseen-pace.ts";

/** A replica's slot for a request whose prompt it computes for another one. */
export interface LeasedPrefill {
  readonly replicaId: ReplicaId;
  readonly dispatchNumber: number;
  /** Of the prompt, what should be cached there, and where it is answered. */
  readonly foundTokens: number;
  readonly ownCachedTokens: number;
  /** Whether to be late is its replica's fault. */
  readonly isLateAFault: boolean;
  /** Whether it was computed there; absent while nobody knows. */
  isDone?: boolean;
  /** Its slot is given back, or gone with its replica's process. */
  isOver: boolean;
}

/** A request's right to its slot on a replica, until an instant, and what was foreseen of it. */
export interface Lease {
  readonly leaseId: LeaseId;
  readonly requestId: RequestId;
  readonly tenantId: TenantId;
  readonly modelId: ModelId;
  /** As its replica knows it; absent where every replica of the pool will do. */
  readonly replicaModelId: string | undefined;
  readonly operation: Operation["name"];
  readonly replicaId: ReplicaId;
  /** Counts the dispatches of a pool's epoch, over all replicas. */
  readonly dispatchNumber: number;
  readonly promptBytes: number;
  /** As they were expected; those emitted before are among what is prefilled, and no part of the output. */
  readonly promptTokens: number;
  readonly emittedTokens: number;
  /** Of the prompt, what should be cached there, and as how much that was counted. */
  readonly foundTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
  /** What one in ten has more than. */
  readonly outputTokensHigh: number;
  readonly isStreamed: boolean;
  readonly outputTokensMax: number | undefined;
  /** What it was expected to cost when it was sent. */
  readonly costMs: number;
  /** What was charged for it by now, at least that, and where: until it is corrected at its end. */
  chargedMs: number;
  /** Output tokens as reckoned when its cost was last revised; 1 before. */
  tokensSoFar: number;
  /** Up to when they are reckoned; absent: from its start. */
  countedUntilMs?: number;
  readonly account: FairAccount;
  /** How slow the replica was taken to be. */
  readonly speedRatio: number;
  /** The pace that the replica's own figures foretold; absent where it told none. */
  readonly claimedPaceMs?: number;
  /** What was foreseen, to be held against what comes. */
  readonly foreseen: { readonly ttft: PastForecast; readonly tpot: ForeseenPace };
  /** What of the targets' time was spent by the dispatch. */
  readonly spentMs: number;
  readonly dispatchedAtMs: number;
  readonly expiresAtMs: number;
  startedAtMs?: number;
  /** True once its replica's process is gone, and its slot with it; its caller does not know yet. */
  isLost: boolean;
  /** The other copy of its request, once there was one; it may have ended. */
  twinId?: LeaseId;
  /** True: it was sent as the second copy. */
  readonly isHedge: boolean;
  /** Present where its prompt is computed elsewhere. */
  prefill?: LeasedPrefill;
  /** Whether `chargedMs` is charged to its account: of two copies one is. */
  isCharged: boolean;
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
  readonly #countByModel = new Map<ModelId, number>();

  constructor(leasesMax: number, state: LeaseBookState = new Map()) {
    this.#leasesMax = leasesMax;
    this.state = state;
    for (const { modelId } of state.values()) this.#count(modelId, 1);
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

  /** How many are for a model. */
  countOf(modelId: ModelId): number {
    return this.#countByModel.get(modelId) ?? 0;
  }

  get(leaseId: LeaseId): Lease | undefined {
    return this.state.get(leaseId);
  }

  add(lease: Lease): void {
    assert(!this.isFull, "a lease is given only while there is room for it");
    this.state.set(lease.leaseId, lease);
    this.#count(lease.modelId, 1);
  }

  /** Takes a lease out; `undefined` when it was settled before, has expired, or was never given. */
  remove(leaseId: LeaseId): Lease | undefined {
    const lease = this.state.get(leaseId);
    if (lease === undefined) return undefined;
    this.state.delete(leaseId);
    this.#count(lease.modelId, -1);
    return lease;
  }

  /** The other copy of a lease's request, while it is alive. */
  twinOf({ twinId }: Lease): Lease | undefined {
    return twinId === undefined ? undefined : this.state.get(twinId);
  }

  /** Takes out every lease whose instant has come. */
  removeExpired(nowMs: number): Lease[] {
    const expired: Lease[] = [];
    for (let lease = this.#oldest(); lease !== undefined; lease = this.#oldest()) {
      if (lease.expiresAtMs > nowMs) break;
      expired.push(lease);
      this.remove(lease.leaseId);
    }
    return expired;
  }

  /** Notes that the slots of all leases on a replica are gone. */
  loseAllOf(replicaId: ReplicaId): void {
    for (const lease of this.state.values()) {
      if (lease.replicaId === replicaId) lease.isLost = true;
      if (lease.prefill?.replicaId === replicaId) lease.prefill.isOver = true;
    }
  }

  [Symbol.iterator](): Iterator<Lease> {
    return this.state.values();
  }

  checkInvariants(): void {
    assert(this.state.size <= this.#leasesMax, "the leases are within their bound");
    for (const lease of this.state.values()) {
      assert(lease.prefill?.replicaId !== lease.replicaId, "a prompt is computed elsewhere");
      assert(lease.chargedMs >= lease.costMs, "who runs is charged what was foreseen, or more");
      const twin = this.twinOf(lease);
      if (twin === undefined) continue;
      assert(twin.twinId === lease.leaseId, "two copies know each other");
      assert(twin.requestId === lease.requestId, "two copies are of one request");
      assert(twin.replicaId !== lease.replicaId, "two copies are on two replicas");
      assert(twin.isHedge !== lease.isHedge, "one of two copies was the first");
      assert(!(twin.isCharged && lease.isCharged), "a request is charged once");
    }
    const rebuilt = new LeaseBook(this.#leasesMax, this.state).#countByModel;
    assert(rebuilt.size === this.#countByModel.size, "only models with leases are counted");
    for (const [modelId, count] of rebuilt) {
      assert(this.countOf(modelId) === count, "a model's leases are counted");
    }
  }

  #count(modelId: ModelId, change: 1 | -1): void {
    const count = this.countOf(modelId) + change;
    if (count === 0) this.#countByModel.delete(modelId);
    else this.#countByModel.set(modelId, count);
  }

  #oldest(): Lease | undefined {
    return this.state.values().next().value;
  }
}

/** Lets one of two copies carry what their request was charged, if the other one does. */
export function moveCharge(from: Lease, to: Lease): void {
  if (!from.isCharged) return;
  from.isCharged = false;
  to.isCharged = true;
  to.chargedMs = from.chargedMs;
}
