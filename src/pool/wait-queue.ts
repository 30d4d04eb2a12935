import { assert } from "../base/assert.ts";
import type { RequestId } from "../protocol/ids.ts";
import type { Offer } from "./offer.ts";

/** A request that waits in the pool for a slot. */
export interface Waiter {
  readonly offer: Offer;
  /** What the prompt is expected to have, rather too much than too little. */
  readonly promptTokens: number;
  /** What it has at the least, for verdicts that no other moment would change. */
  readonly promptTokensMin: number;
  readonly offeredAtMs: number;
  readonly firstTokenDeadlineAtMs: number;
  /** When its verdict must be looked at again if nothing happens before. */
  recheckAtMs: number;
}

/**
 * The waiting requests, earliest deadline first, ties in order of arrival. A sorted array: the
 * queue is short, is walked in order at every event, and loses entries from its middle.
 */
export class WaitQueue {
  readonly #waiters: Waiter[] = [];
  readonly #byRequest = new Map<RequestId, Waiter>();

  get size(): number {
    return this.#waiters.length;
  }

  has(requestId: RequestId): boolean {
    return this.#byRequest.has(requestId);
  }

  add(waiter: Waiter): void {
    this.#waiters.splice(this.#indexAfter(waiter.firstTokenDeadlineAtMs), 0, waiter);
    this.#byRequest.set(waiter.offer.requestId, waiter);
  }

  /** Takes a request out; `undefined` when it does not wait here. */
  remove(requestId: RequestId): Waiter | undefined {
    const waiter = this.#byRequest.get(requestId);
    if (waiter === undefined) return undefined;
    this.#byRequest.delete(requestId);
    this.#waiters.splice(this.#waiters.indexOf(waiter), 1);
    return waiter;
  }

  /** Returns the waiters in order, as they are now: the queue may change while they are walked. */
  inOrder(): readonly Waiter[] {
    return [...this.#waiters];
  }

  /** The earliest instant at which a verdict must be looked at again. */
  get nextRecheckAtMs(): number | undefined {
    if (this.#waiters.length === 0) return undefined;
    return this.#waiters.reduce(
      (earliest, { recheckAtMs }) => Math.min(earliest, recheckAtMs),
      Infinity,
    );
  }

  checkInvariants(): void {
    assert(this.#waiters.length === this.#byRequest.size, "a request waits once");
    let before = -Infinity;
    for (const waiter of this.#waiters) {
      const deadlineAtMs = waiter.firstTokenDeadlineAtMs;
      assert(deadlineAtMs >= before, "the earliest deadline comes first");
      assert(waiter.recheckAtMs <= deadlineAtMs, "a verdict is due before the deadline");
      before = deadlineAtMs;
    }
  }

  #indexAfter(deadlineAtMs: number): number {
    let low = 0;
    let high = this.#waiters.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const waiter = this.#waiters[middle];
      if (waiter !== undefined && waiter.firstTokenDeadlineAtMs <= deadlineAtMs) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
