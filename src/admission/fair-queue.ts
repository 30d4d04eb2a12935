import { assert } from "../base/assert.ts";
import type { KeyedHeapState } from "../base/heap.ts";
import { KeyedHeap } from "../base/heap.ts";
import type { RequestId, TenantId } from "../protocol/ids.ts";
import type { VirtualCostState } from "./virtual-cost.ts";
import { VirtualCost } from "./virtual-cost.ts";

/** What a {@link FairQueue} remembers. */
export interface FairQueueState {
  readonly costs: VirtualCostState;
  /** Per tenant its waiting requests by deadline; no tenant's is empty. */
  readonly lanes: Map<TenantId, KeyedHeapState<RequestId>>;
}

/** How many, of whom, and at what cost: see {@link FairQueue.heads}. */
export interface HeadsQuery {
  readonly max: number;
  readonly perTenantMax: number;
  /** What a request is predicted to cost, over its tenant's weight. */
  readonly virtualCostOf: (requestId: RequestId) => number;
  /** Who cannot be served whatever becomes free, and so is passed over; absent: nobody. */
  readonly isHeld?: (requestId: RequestId) => boolean;
}

/** Behind so many of a tenant's requests that are held nobody looks for another one of its. */
const HELD_PASSED_MAX = 32;

/** What is left of a tenant's requests, and where the next one stands. */
interface Line {
  readonly requestIds: Generator<RequestId, undefined>;
  next: RequestId | undefined;
  startsAtMs: number;
}

/** A queue without requests. */
export function emptyFairQueue(): FairQueueState {
  return { costs: new VirtualCost().state, lanes: new Map() };
}

/** Requests of one rank: by virtual cost across tenants, earliest deadline first inside each. */
export class FairQueue {
  readonly state: FairQueueState;
  readonly #costs: VirtualCost;
  readonly #laneOf = new Map<TenantId, KeyedHeap<RequestId>>();

  constructor(state: FairQueueState = emptyFairQueue()) {
    this.state = state;
    this.#costs = new VirtualCost({}, state.costs);
    for (const [tenantId, lane] of state.lanes) this.#laneOf.set(tenantId, new KeyedHeap(lane));
  }

  get isEmpty(): boolean {
    return this.#laneOf.size === 0;
  }

  get requestsInFlight(): number {
    return this.#costs.requestsInFlight;
  }

  add(tenantId: TenantId, requestId: RequestId, deadlineAtMs: number): void {
    let lane = this.#laneOf.get(tenantId);
    if (lane === undefined) {
      lane = new KeyedHeap<RequestId>();
      this.#laneOf.set(tenantId, lane);
      this.state.lanes.set(tenantId, lane.state);
      this.#costs.activate(tenantId);
    }
    lane.set(requestId, deadlineAtMs);
  }

  remove(tenantId: TenantId, requestId: RequestId): void {
    const lane = this.#laneOf.get(tenantId);
    assert(lane?.delete(requestId) === true, "a request leaves the queue that it is in");
    if (lane.size > 0) return;
    this.#laneOf.delete(tenantId);
    this.state.lanes.delete(tenantId);
    this.#costs.deactivate(tenantId);
  }

  charge(tenantId: TenantId, costMs: number, weight: number): void {
    this.#costs.charge(tenantId, costMs, weight);
  }

  leadMsOf(tenantId: TenantId): number {
    return this.#costs.leadMsOf(tenantId);
  }

  settle(
    tenantId: TenantId,
    cost: { readonly chargedMs: number; readonly actualMs: number },
    weight: number,
  ): void {
    this.#costs.settle(tenantId, cost, weight);
  }

  correct(tenantId: TenantId, deltaMs: number, weight: number): void {
    this.#costs.correct(tenantId, deltaMs, weight);
  }

  /**
   * The next requests in the order in which they would be served if each could be: a tenant's second
   * one stands where its first one's cost will have put the tenant.
   */
  heads({ max, perTenantMax, virtualCostOf, isHeld }: HeadsQuery): RequestId[] {
    const lines: Line[] = [];
    // No tenant behind the first `max` can have one of the first `max` requests.
    for (const tenantId of this.#costs.first(max)) {
      const requestIds = this.#firstOf(tenantId, perTenantMax, isHeld);
      const { value: next } = requestIds.next();
      if (next !== undefined) {
        lines.push({ requestIds, next, startsAtMs: this.#costs.counterOf(tenantId) });
      }
    }
    const heads: RequestId[] = [];
    while (heads.length < max) {
      const line = firstLineOf(lines);
      if (line?.next === undefined) break;
      heads.push(line.next);
      line.startsAtMs += virtualCostOf(line.next);
      line.next = line.requestIds.next().value;
    }
    return heads;
  }

  /** A tenant's first requests, found one by one as far as somebody asks for them. */
  *#firstOf(
    tenantId: TenantId,
    max: number,
    isHeld?: (requestId: RequestId) => boolean,
  ): Generator<RequestId, undefined> {
    let passed = 0;
    let found = 0;
    for (const requestId of this.#laneOf.get(tenantId)?.inOrder() ?? []) {
      if (isHeld?.(requestId) === true) {
        passed += 1;
        if (passed > HELD_PASSED_MAX) return undefined;
        continue;
      }
      yield requestId;
      found += 1;
      if (found >= max) return undefined;
    }
    return undefined;
  }

  checkInvariants(): void {
    this.#costs.checkInvariants();
    assert(this.#costs.activeTenants === this.#laneOf.size, "those who wait are active");
    assert(this.state.lanes.size === this.#laneOf.size, "every lane is remembered");
    for (const [tenantId, lane] of this.#laneOf) {
      assert(lane.size > 0, "no lane is empty");
      assert(this.state.lanes.get(tenantId) === lane.state, "a lane is the one remembered");
      lane.checkInvariants();
    }
  }
}

/** The line of whoever is next: among equals that of the first tenant. */
function firstLineOf(lines: readonly Line[]): Line | undefined {
  let first: Line | undefined;
  for (const line of lines) {
    if (line.next === undefined) continue;
    if (first === undefined || line.startsAtMs < first.startsAtMs) first = line;
  }
  return first;
}
