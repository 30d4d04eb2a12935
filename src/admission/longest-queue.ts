import { assert } from "../base/assert.ts";
import type { KeyedHeapState } from "../base/heap.ts";
import { KeyedHeap } from "../base/heap.ts";
import type { RequestId, TenantId } from "../protocol/ids.ts";

/** What a {@link LongestQueue} remembers. */
export interface LongestQueueState {
  /** Tenants, the one with most requests for its weight first. */
  readonly tenants: KeyedHeapState<TenantId>;
  /** Per tenant its requests, latest deadline first; no tenant's is empty. */
  readonly lanes: Map<TenantId, KeyedHeapState<RequestId>>;
}

/** A queue without requests. */
export function emptyLongestQueue(): LongestQueueState {
  return { tenants: { entries: [], added: 0 }, lanes: new Map() };
}

/**
 * Knows which request goes first when there are too many: of the tenant that has most of them for
 * its weight the one with most time left (longest queue drop, as in stochastic fair queueing).
 */
export class LongestQueue {
  readonly state: LongestQueueState;
  readonly #tenants: KeyedHeap<TenantId>;
  readonly #laneOf = new Map<TenantId, KeyedHeap<RequestId>>();

  constructor(state: LongestQueueState = emptyLongestQueue()) {
    this.state = state;
    this.#tenants = new KeyedHeap(state.tenants);
    for (const [tenantId, lane] of state.lanes) this.#laneOf.set(tenantId, new KeyedHeap(lane));
  }

  /** The request to give up first. */
  get worst(): RequestId | undefined {
    const tenantId = this.#tenants.first;
    return tenantId === undefined ? undefined : this.worstOf(tenantId);
  }

  /** Requests of the tenant that has most, for its weight. */
  get longest(): number {
    return -(this.#tenants.firstPriority ?? 0);
  }

  /** The request that a tenant is to give up first. */
  worstOf(tenantId: TenantId): RequestId | undefined {
    return this.#laneOf.get(tenantId)?.first;
  }

  /** Requests of a tenant. */
  sizeOf(tenantId: TenantId): number {
    return this.#laneOf.get(tenantId)?.size ?? 0;
  }

  add(tenantId: TenantId, requestId: RequestId, deadlineAtMs: number, weight: number): void {
    let lane = this.#laneOf.get(tenantId);
    if (lane === undefined) {
      lane = new KeyedHeap<RequestId>();
      this.#laneOf.set(tenantId, lane);
      this.state.lanes.set(tenantId, lane.state);
    }
    lane.set(requestId, -deadlineAtMs);
    this.#tenants.set(tenantId, -lane.size / weight);
  }

  remove(tenantId: TenantId, requestId: RequestId, weight: number): void {
    const lane = this.#laneOf.get(tenantId);
    assert(lane?.delete(requestId) === true, "a request leaves the queue that it is in");
    if (lane.size > 0) {
      this.#tenants.set(tenantId, -lane.size / weight);
      return;
    }
    this.#laneOf.delete(tenantId);
    this.state.lanes.delete(tenantId);
    this.#tenants.delete(tenantId);
  }

  checkInvariants(): void {
    this.#tenants.checkInvariants();
    assert(this.#tenants.size === this.#laneOf.size, "every tenant here has requests here");
    assert(this.state.lanes.size === this.#laneOf.size, "every lane is remembered");
    for (const lane of this.#laneOf.values()) {
      assert(lane.size > 0, "no lane is empty");
      lane.checkInvariants();
    }
  }
}
