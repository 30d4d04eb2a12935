import { assert } from "../base/assert.ts";
import { DecayingAverage } from "../base/average.ts";
import type { RequestId } from "../protocol/ids.ts";
import { HOLD_MS_MAX } from "../slo/answer-span.ts";

/** Whether a request may run beside the others of its tenant. */
export type PermitVerdict =
  | { readonly kind: "granted"; readonly hold: PermitHold }
  | { readonly kind: "rejected"; readonly retryAfterMs: number };

/** One caller's claim on a request's permit. */
export interface PermitHold {
  readonly requestId: RequestId;
  readonly number: number;
}

interface Permit {
  /** Who holds it: more than one when a request was asked for twice. */
  readonly holdNumbers: Set<number>;
  readonly grantedAtMs: number;
  /** A permit that nobody gives back ends by itself. */
  readonly expiresAtMs: number;
}

/** Above this many a tenant gets no further permit, whatever its configuration says. */
const PERMITS_MAX = 10_000;
/** One request has no reason to be asked for so often at a time. */
const HOLDS_PER_REQUEST_MAX = 8;
const HOLD_HALF_LIFE_MS = 60_000;
/** Nothing changes so fast that asking again sooner could help. */
const RETRY_AFTER_MS_MIN = 1_000;

/**
 * How many requests of one tenant run at once, counted by a single writer.
 *
 * A permit belongs to a request id: asking again for a request that has one grants the same permit
 * to a second holder, and it comes back when all its holders have let go. So a caller that repeats
 * a lost call neither takes two places nor loses the one it still uses.
 */
export class TenantPermits {
  /** In order of expiry, since all permits live equally long. */
  readonly #permits = new Map<RequestId, Permit>();
  readonly #holdMs = new DecayingAverage({ halfLifeMs: HOLD_HALF_LIFE_MS });
  #lastHoldNumber = 0;

  /** Grants a permit unless the tenant has `concurrencyMax` of them already. */
  acquire(
    request: { readonly requestId: RequestId; readonly concurrencyMax: number },
    nowMs: number,
  ): PermitVerdict {
    this.#removeExpired(nowMs);
    const { requestId } = request;
    const known = this.#permits.get(requestId);
    const permitsMax = Math.min(request.concurrencyMax, PERMITS_MAX);
    const isFull =
      known === undefined
        ? this.#permits.size >= permitsMax
        : known.holdNumbers.size >= HOLDS_PER_REQUEST_MAX;
    if (isFull) {
      return { kind: "rejected", retryAfterMs: this.#retryAfterMs(permitsMax) };
    }
    this.#lastHoldNumber += 1;
    if (known === undefined) {
      this.#permits.set(requestId, {
        holdNumbers: new Set([this.#lastHoldNumber]),
        grantedAtMs: nowMs,
        expiresAtMs: nowMs + HOLD_MS_MAX,
      });
    } else {
      known.holdNumbers.add(this.#lastHoldNumber);
    }
    return { kind: "granted", hold: { requestId, number: this.#lastHoldNumber } };
  }

  /** Requests that have a permit. */
  countHeld(nowMs: number): number {
    this.#removeExpired(nowMs);
    return this.#permits.size;
  }

  /** Whether a request has a permit already. */
  isHeld(requestId: RequestId, nowMs: number): boolean {
    this.#removeExpired(nowMs);
    return this.#permits.has(requestId);
  }

  /** Lets go of a permit. A hold that was released before or has expired changes nothing. */
  release(hold: PermitHold, nowMs: number): void {
    const permit = this.#permits.get(hold.requestId);
    if (permit?.holdNumbers.delete(hold.number) !== true || permit.holdNumbers.size > 0) return;
    this.#permits.delete(hold.requestId);
    this.#holdMs.add(nowMs - permit.grantedAtMs, nowMs);
  }

  checkInvariants(): void {
    assert(this.#permits.size <= PERMITS_MAX, "the permits are within their bound");
    let before = 0;
    for (const { holdNumbers, expiresAtMs } of this.#permits.values()) {
      assert(holdNumbers.size > 0, "a permit that nobody holds is gone");
      assert(holdNumbers.size <= HOLDS_PER_REQUEST_MAX, "the holds are within their bound");
      assert(expiresAtMs >= before, "permits are in order of expiry");
      before = expiresAtMs;
    }
  }

  #removeExpired(nowMs: number): void {
    for (const [requestId, { expiresAtMs }] of this.#permits) {
      if (expiresAtMs > nowMs) break;
      this.#permits.delete(requestId);
    }
  }

  /** When one of `permitsMax` places should come free, judged by how long they were held so far. */
  #retryAfterMs(permitsMax: number): number {
    const expectedMs = Math.ceil((this.#holdMs.value ?? 0) / Math.max(1, permitsMax));
    return Math.max(expectedMs, RETRY_AFTER_MS_MIN);
  }
}
