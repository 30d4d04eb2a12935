import { assert } from "../base/assert.ts";
import type { KeyedHeapState } from "../base/heap.ts";
import { KeyedHeap } from "../base/heap.ts";
import type { Random } from "../base/random.ts";
import type { TenantId } from "../protocol/ids.ts";

/** A request that is refused, and what is known of when it need not be. */
export interface Refusal {
  readonly tenantId: TenantId;
  readonly costMs: number;
  readonly isInProfile: boolean;
  /** Until the tenant's bucket holds its cost; for excess. `Infinity` where nothing is granted. */
  readonly inProfileAfterMs: number;
  /** Until what waits and runs now is served. */
  readonly backlogDrainsAfterMs: number;
  /** GPU-ms a ms that the tenant has of the pool when all want more than there is. */
  readonly shareMsPerMs: number;
}

/** What {@link RetryAfter} remembers: until when each tenant's retries are promised, earliest first. */
export type RetryAfterState = KeyedHeapState<TenantId>;

/** The bound of {@link RetryAfter}. */
export interface RetryAfterLimits {
  readonly tenantsMax: number;
}

const DEFAULTS: RetryAfterLimits = { tenantsMax: 10_000 };
const JITTER_RATIO = 0.2;
/** With jitter a second, and a minute. */
const MIDDLE_MS_MIN = 1_000 / (1 - JITTER_RATIO);
const MIDDLE_MS_MAX = 60_000 / (1 + JITTER_RATIO);
/**
 * What of a tenant's share is promised to its retries. After a burst its new requests take most of
 * it, four fifths say; retries that came back faster than the rest allows would be a burst again.
 */
const RETRY_SHARE_RATIO = 0.15;

/**
 * Says when to come back. Everyone who was refused in the same burst would otherwise be told the
 * same instant and be refused again then, so each of a tenant's refusals is given an instant of its
 * own, one behind the other at the pace that leaves room for new requests.
 */
export class RetryAfter {
  readonly state: RetryAfterState;
  readonly #promisedUntil: KeyedHeap<TenantId>;
  readonly #limits: RetryAfterLimits;

  constructor(
    limits: Partial<RetryAfterLimits> = {},
    state: RetryAfterState = { entries: [], added: 0 },
  ) {
    this.#limits = { ...DEFAULTS, ...limits };
    this.state = state;
    this.#promisedUntil = new KeyedHeap(state);
  }

  /** How long a refused request should stay away: 1 s to 60 s, of which a fifth either way is jitter. */
  promiseMs(refusal: Refusal, random: Random, nowMs: number): number {
    this.#forgetPast(nowMs);
    const { tenantId, costMs, shareMsPerMs } = refusal;
    const untilMs = this.#promisedUntil.priorityOf(tenantId) ?? nowMs;
    const waitMs = Math.max(possibleAfterMs(refusal), untilMs - nowMs);
    const paceMs = costMs / (shareMsPerMs * RETRY_SHARE_RATIO);
    // Later than anyone is told, promises mean nothing; they would only take longer to run out.
    const promisedMs = Math.min(MIDDLE_MS_MAX, waitMs + (costMs > 0 ? paceMs : 0));
    this.#promisedUntil.set(tenantId, nowMs + promisedMs);
    if (this.#promisedUntil.size > this.#limits.tenantsMax) this.#forgetFirst();
    // Within the bounds before the jitter, not after: at a bound, half would be told the same again.
    const middleMs = Math.min(Math.max(waitMs, MIDDLE_MS_MIN), MIDDLE_MS_MAX);
    return middleMs * (1 + JITTER_RATIO * (2 * random() - 1));
  }

  checkInvariants(): void {
    this.#promisedUntil.checkInvariants();
    assert(this.#promisedUntil.size <= this.#limits.tenantsMax, "promises are bounded");
  }

  #forgetPast(nowMs: number): void {
    while ((this.#promisedUntil.firstPriority ?? Infinity) <= nowMs) this.#forgetFirst();
  }

  #forgetFirst(): void {
    const tenantId = this.#promisedUntil.first;
    if (tenantId !== undefined) this.#promisedUntil.delete(tenantId);
  }
}

/** When a request could be served at the earliest. One without a guarantee has to wait for idle replicas. */
function possibleAfterMs({ isInProfile, inProfileAfterMs, backlogDrainsAfterMs }: Refusal): number {
  if (isInProfile || inProfileAfterMs === Infinity) return backlogDrainsAfterMs;
  return inProfileAfterMs;
}
