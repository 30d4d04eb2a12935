import { assert } from "../base/assert.ts";
import type { RequestId, TenantId } from "../protocol/ids.ts";
import type { LongestQueueState } from "./longest-queue.ts";
import { emptyLongestQueue, LongestQueue } from "./longest-queue.ts";
import type { FairAccount, WaitingRequest } from "./waiting-request.ts";

/** What a {@link WaitingRoom} remembers. */
export interface WaitingRoomState {
  size: number;
  /** Requests of each tenant that has any. */
  readonly sizes: Map<TenantId, number>;
  readonly excess: LongestQueueState;
}

/** How many requests may wait, of all tenants and of one. */
export interface WaitingRoomLimits {
  readonly requestsMax: number;
  readonly tenantRequestsMax: number;
}

/** What it takes to let another request wait. */
export type Room =
  | { readonly kind: "free" }
  /** This one has to go first. */
  | { readonly kind: "displace"; readonly requestId: RequestId }
  | { readonly kind: "full" };

/** A room that is empty. */
export function emptyWaitingRoom(): WaitingRoomState {
  return { size: 0, sizes: new Map(), excess: emptyLongestQueue() };
}

/** Says who may wait, and who has to leave for whom when too many do. */
export class WaitingRoom {
  readonly state: WaitingRoomState;
  readonly #limits: WaitingRoomLimits;
  readonly #excess: LongestQueue;

  constructor(limits: WaitingRoomLimits, state: WaitingRoomState = emptyWaitingRoom()) {
    this.#limits = limits;
    this.state = state;
    this.#excess = new LongestQueue(state.excess);
  }

  get size(): number {
    return this.state.size;
  }

  /** The excess request to give up first. */
  get worstExcess(): RequestId | undefined {
    return this.#excess.worst;
  }

  /**
   * Says whether another request may wait. A request in profile takes the place of an excess one: in
   * a full room of the worst, for a tenant with its fill of that tenant's own. In a full room an excess
   * request takes the place of one of a tenant that would still have no fewer of them for its weight.
   * `requestsMax` may make the room smaller than it is; those in it are then too many, and none has to go.
   */
  roomFor(
    { tenantId, weight, isInProfile }: FairAccount,
    requestsMax = this.#limits.requestsMax,
  ): Room {
    if (this.#sizeOf(tenantId) >= this.#limits.tenantRequestsMax) {
      return isInProfile ? toRoom(this.#excess.worstOf(tenantId)) : { kind: "full" };
    }
    if (this.size < Math.min(requestsMax, this.#limits.requestsMax)) return { kind: "free" };
    const wouldHave = (this.#excess.sizeOf(tenantId) + 1) / weight;
    const isOwed = isInProfile || wouldHave < this.#excess.longest;
    return isOwed ? toRoom(this.worstExcess) : { kind: "full" };
  }

  /** A request comes in for which there is room. */
  add(request: WaitingRequest): void {
    const { requestId, tenantId, deadlineAtMs, weight } = request;
    assert(this.roomFor(request).kind === "free", "there is room for a request that waits");
    this.state.size += 1;
    this.state.sizes.set(tenantId, this.#sizeOf(tenantId) + 1);
    if (!request.isInProfile) this.#excess.add(tenantId, requestId, deadlineAtMs, weight);
  }

  /** A request leaves, for whatever reason. */
  remove({ requestId, tenantId, weight, isInProfile }: WaitingRequest): void {
    this.state.size -= 1;
    const size = this.#sizeOf(tenantId) - 1;
    if (size > 0) this.state.sizes.set(tenantId, size);
    else this.state.sizes.delete(tenantId);
    if (!isInProfile) this.#excess.remove(tenantId, requestId, weight);
  }

  checkInvariants(): void {
    assert(this.size <= this.#limits.requestsMax, "the room is within its bound");
    let sum = 0;
    for (const size of this.state.sizes.values()) {
      assert(size > 0 && size <= this.#limits.tenantRequestsMax, "a tenant is within its bound");
      sum += size;
    }
    assert(sum === this.size, "every request is counted for its tenant");
    this.#excess.checkInvariants();
  }

  #sizeOf(tenantId: TenantId): number {
    return this.state.sizes.get(tenantId) ?? 0;
  }
}

function toRoom(requestId: RequestId | undefined): Room {
  return requestId === undefined ? { kind: "full" } : { kind: "displace", requestId };
}
