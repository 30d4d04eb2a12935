import { assert } from "../base/assert.ts";
import type { KeyedHeapState } from "../base/heap.ts";
import { KeyedHeap } from "../base/heap.ts";
import type { TenantId } from "../protocol/ids.ts";

/** What {@link VirtualCost} remembers. */
export interface VirtualCostState {
  /** Where a tenant begins that comes, or comes back; never falls. */
  floorMs: number;
  /** Tenants that wait for something, by counter. */
  readonly active: KeyedHeapState<TenantId>;
  /** Tenants that do not, by counter; only those above the floor. */
  readonly idle: KeyedHeapState<TenantId>;
  /** What of a tenant's counter is for requests that have not ended. */
  readonly inFlight: Map<TenantId, { requests: number; costMs: number }>;
}

/** Idle tenants that are remembered; they are those that have had more than their share lately. */
const IDLE_TENANTS_MAX = 10_000;

/**
 * Counts what each tenant has had, in predicted GPU-ms over its weight; whoever has had least is
 * next (Virtual Token Counter, Sheng et al., OSDI '24, with cost in place of tokens).
 *
 * A tenant that becomes active is lifted to the floor, the least counter among the active ones: no
 * one is paid for having been away. While none is active the floor is where the last one served
 * stands. The only request that a tenant has in flight does not raise it: if that turns out far shorter
 * than predicted it is given back to whom it was charged, and a newcomer, to whom nothing is given back,
 * would wait until it is used up. Of many in flight errors even out, and to count them as given back
 * would put whoever returns ahead of everybody.
 *
 * An idle tenant below the floor need not be remembered, since it would be lifted anyway; of those above
 * it, the one least ahead is forgotten when there are too many.
 */
export class VirtualCost {
  readonly state: VirtualCostState;
  readonly #active: KeyedHeap<TenantId>;
  readonly #idle: KeyedHeap<TenantId>;
  readonly #idleMax: number;

  constructor(
    options: { readonly idleMax?: number } = {},
    state: VirtualCostState = {
      floorMs: 0,
      active: { entries: [], added: 0 },
      idle: { entries: [], added: 0 },
      inFlight: new Map(),
    },
  ) {
    this.#idleMax = options.idleMax ?? IDLE_TENANTS_MAX;
    this.state = state;
    this.#active = new KeyedHeap(state.active);
    this.#idle = new KeyedHeap(state.idle);
  }

  /** A tenant's counter, or what it would be if it came now. */
  counterOf(tenantId: TenantId): number {
    const counterMs = this.#active.priorityOf(tenantId) ?? this.#idle.priorityOf(tenantId);
    return counterMs ?? this.state.floorMs;
  }

  /** How much more a tenant has had than the active one that has had least; 0 where none is active. */
  leadMsOf(tenantId: TenantId): number {
    const leastMs = this.#active.firstPriority;
    return leastMs === undefined ? 0 : Math.max(0, this.counterOf(tenantId) - leastMs);
  }

  /** The active tenants that have had least, least first. */
  first(count: number): TenantId[] {
    return this.#active.firstKeys(count);
  }

  get activeTenants(): number {
    return this.#active.size;
  }

  /** What was charged and has not ended. */
  get requestsInFlight(): number {
    let requests = 0;
    for (const flying of this.state.inFlight.values()) requests += flying.requests;
    return requests;
  }

  /** A tenant has something to do. */
  activate(tenantId: TenantId): void {
    if (this.#active.has(tenantId)) return;
    const counterMs = Math.max(this.counterOf(tenantId), this.state.floorMs);
    this.#idle.delete(tenantId);
    this.#active.set(tenantId, counterMs);
    this.#raiseFloor();
  }

  /** A tenant has nothing to do any more. */
  deactivate(tenantId: TenantId): void {
    const counterMs = this.#active.priorityOf(tenantId);
    if (counterMs === undefined) return;
    this.#active.delete(tenantId);
    this.#rest(tenantId, counterMs);
    this.#raiseFloor();
  }

  /** A tenant gets something. One that is idle is served at once, as if it had waited for no time. */
  charge(tenantId: TenantId, costMs: number, weight: number): void {
    assert(weight > 0, "a weight is positive");
    const flying = this.state.inFlight.get(tenantId) ?? { requests: 0, costMs: 0 };
    flying.requests += 1;
    flying.costMs += costMs / weight;
    this.state.inFlight.set(tenantId, flying);
    this.#move(tenantId, costMs / weight);
  }

  /** What a tenant gets, and has not ended, is going to cost so much more, or less, than it was charged. */
  correct(tenantId: TenantId, deltaMs: number, weight: number): void {
    assert(weight > 0, "a weight is positive");
    const flying = this.state.inFlight.get(tenantId);
    assert(flying !== undefined, "only what is in flight is corrected");
    flying.costMs += deltaMs / weight;
    this.#move(tenantId, deltaMs / weight);
  }

  /** What a tenant got has ended, and cost what it did instead of what it was charged. */
  settle(
    tenantId: TenantId,
    cost: { readonly chargedMs: number; readonly actualMs: number },
    weight: number,
  ): void {
    assert(weight > 0, "a weight is positive");
    const { inFlight } = this.state;
    const flying = inFlight.get(tenantId);
    assert(flying !== undefined, "what ends was charged");
    flying.requests -= 1;
    flying.costMs -= cost.chargedMs / weight;
    if (flying.requests === 0) inFlight.delete(tenantId);
    this.#move(tenantId, (cost.actualMs - cost.chargedMs) / weight);
  }

  checkInvariants(): void {
    this.#active.checkInvariants();
    this.#idle.checkInvariants();
    assert(this.#idle.size <= this.#idleMax, "idle tenants are bounded");
    assert(
      (this.#idle.firstPriority ?? Infinity) > this.state.floorMs,
      "an idle tenant is remembered only above the floor",
    );
    for (const { requests } of this.state.inFlight.values()) {
      assert(requests > 0, "who has nothing in flight is not remembered for it");
    }
    for (const tenantId of this.#idle.keys()) {
      assert(!this.#active.has(tenantId), "a tenant is either active or idle");
    }
  }

  #move(tenantId: TenantId, byMs: number): void {
    const counterMs = this.counterOf(tenantId) + byMs;
    if (this.#active.has(tenantId)) this.#active.set(tenantId, counterMs);
    else {
      if (this.#active.size === 0) this.#raiseFloorTo(this.#settledOf(tenantId, counterMs));
      this.#rest(tenantId, counterMs);
    }
    this.#raiseFloor();
  }

  #settledOf(tenantId: TenantId, counterMs: number): number {
    const flying = this.state.inFlight.get(tenantId);
    return flying?.requests === 1 ? counterMs - flying.costMs : counterMs;
  }

  #rest(tenantId: TenantId, counterMs: number): void {
    this.#idle.set(tenantId, counterMs);
    if (this.#idle.size > this.#idleMax) this.#forgetFirst();
  }

  #raiseFloor(): void {
    const { first, firstPriority } = this.#active;
    if (first !== undefined && firstPriority !== undefined) {
      this.#raiseFloorTo(this.#settledOf(first, firstPriority));
    }
    while ((this.#idle.firstPriority ?? Infinity) <= this.state.floorMs) this.#forgetFirst();
  }

  #raiseFloorTo(settledMs: number): void {
    this.state.floorMs = Math.max(this.state.floorMs, settledMs);
  }

  #forgetFirst(): void {
    const tenantId = this.#idle.first;
    if (tenantId !== undefined) this.#idle.delete(tenantId);
  }
}
