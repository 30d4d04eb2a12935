import type { FairAccount } from "../admission/waiting-request.ts";
import type { WaitQueue } from "../admission/wait-queue.ts";
import { assert } from "../base/assert.ts";
import type { RequestId } from "../protocol/ids.ts";
import type { PoolRequest } from "./pool-request.ts";
import { targetMsOf } from "./pool-request.ts";
import type { PoolState } from "./pool-state.ts";

/** The requests behind the names that the wait queue keeps in order. */
export class WaitingList {
  readonly #queue: WaitQueue;
  readonly #state: PoolState;

  constructor(queue: WaitQueue, state: PoolState) {
    this.#queue = queue;
    this.#state = state;
  }

  get(requestId: RequestId): PoolRequest {
    const request = this.#state.waiting.get(requestId);
    assert(request !== undefined, "a request that waits is known");
    return request;
  }

  /** Who has to go so that this one may wait: nobody, somebody, or itself. */
  roomFor(request: PoolRequest): "free" | "full" | RequestId {
    const room = this.#queue.roomFor(accountOf(request), this.#state.queueMax);
    return room.kind === "displace" ? room.requestId : room.kind;
  }

  /** Lets a request wait until an instant. */
  add(request: PoolRequest, dropAtMs: number, nowMs: number): void {
    const { requestId, costMs, offer, offeredAtMs } = request;
    this.#state.waiting.set(requestId, request);
    this.#state.waitingCostMs += costMs;
    const deadlineAtMs = offeredAtMs + targetMsOf(request) - offer.elapsedMs;
    this.#queue.add(
      {
        ...accountOf(request),
        requestId,
        costMs,
        sinceMs: offeredAtMs,
        deadlineAtMs,
        dropAtMs,
      },
      nowMs,
    );
  }

  /** A request that was excess is within its tenant's guarantee now, and waits among those. */
  promote(request: PoolRequest, nowMs: number): void {
    const waiting = this.#queue.remove(request.requestId);
    assert(waiting !== undefined, "who is promoted waits");
    request.isInProfile = true;
    this.#queue.add({ ...waiting, isInProfile: true }, nowMs);
  }

  /** Takes a request out that is served; returns the account that was charged for it. */
  take(requestId: RequestId): FairAccount {
    const account = this.#queue.take(requestId, this.get(requestId).costMs);
    this.forget(requestId);
    return account;
  }

  /** Takes a request out that is not served; `undefined` when it does not wait here. */
  remove(requestId: RequestId): PoolRequest | undefined {
    return this.#queue.remove(requestId) === undefined ? undefined : this.forget(requestId);
  }

  /** Forgets a request that the queue has let go. */
  forget(requestId: RequestId): PoolRequest {
    const request = this.get(requestId);
    this.#state.waiting.delete(requestId);
    this.#state.waitingCostMs -= request.costMs;
    return request;
  }
}

/** Where a request's cost is charged. */
export function accountOf({ offer, isInProfile }: PoolRequest): FairAccount {
  const { weight, band } = offer.share;
  return { tenantId: offer.tenantId, weight, band, isInProfile };
}
