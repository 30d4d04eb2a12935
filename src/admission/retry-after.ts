import { assert } from "../base/assert.ts";
import type { KeyedHeapState } from "../base/heap.ts";
import { KeyedHeap } from "../base/heap.ts";
import type { Random } from "../base/random.ts";
import type { TenantId } from "../protocol/ids.ts";
import type { SpareRoomState } from "./spare-room.ts";
import { allSpareRoom, SpareRoom } from "./spare-room.ts";

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
  /** GPU-ms a ms that the whole pool has. */
  readonly poolMsPerMs: number;
}

/** What {@link RetryAfter} remembers. */
export interface RetryAfterState {
  /** Until when each tenant's retries are promised, earliest first. */
  readonly promised: KeyedHeapState<TenantId>;
  readonly spareRoom: SpareRoomState;
}

export function noPromises(): RetryAfterState {
  return { promised: { entries: [], added: 0 }, spareRoom: allSpareRoom() };
}

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
/** And of what the whole pool has to spare: the others that were refused come back for it, too. */
const RETRY_SPARE_RATIO = 0.25;

/**
 * Says when to come back. Everyone who was refused in the same burst would otherwise be told the
 * same instant and be refused again then, so each of a tenant's refusals is given an instant of its
 * own, one behind the other at the pace that leaves room for new requests.
 */
export class RetryAfter {
  readonly state: RetryAfterState;
  readonly #promisedUntil: KeyedHeap<TenantId>;
  readonly #spareRoom: SpareRoom;
  readonly #limits: RetryAfterLimits;

  constructor(limits: Partial<RetryAfterLimits> = {}, state: RetryAfterState = noPromises()) {
    this.#limits = { ...DEFAULTS, ...limits };
    this.state = state;
    this.#promisedUntil = new KeyedHeap(state.promised);
    this.#spareRoom = new SpareRoom(state.spareRoom);
  }

  /** Notes a request that takes of the room that retries would have. */
  sent(costMs: number, nowMs: number): void {
    this.#spareRoom.sent(costMs, nowMs);
  }

  /** How long a refused request should stay away: 1 s to 60 s, of which a fifth either way is jitter. */
  promiseMs(refusal: Refusal, random: Random, nowMs: number): number {
    this.#forgetPast(nowMs);
    const { tenantId, costMs } = refusal;
    const spareRatio = this.#spareRoom.refused(refusal.poolMsPerMs, nowMs);
    const untilMs = this.#promisedUntil.priorityOf(tenantId) ?? nowMs;
    const waitMs = Math.max(possibleAfterMs(refusal, spareRatio), untilMs - nowMs);
    const paceMs = costMs / retryMsPerMs(refusal, spareRatio);
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

/**
 * When a request could be served at the earliest. One without a guarantee has to wait for idle replicas, and
 * so can excess, the more of the pool is free when there is no burst.
 */
function possibleAfterMs(refusal: Refusal, spareRatio: number): number {
  const { isInProfile, inProfileAfterMs, backlogDrainsAfterMs } = refusal;
  if (isInProfile || inProfileAfterMs === Infinity) return backlogDrainsAfterMs;
  if (inProfileAfterMs <= backlogDrainsAfterMs) return inProfileAfterMs;
  return inProfileAfterMs - spareRatio * (inProfileAfterMs - backlogDrainsAfterMs);
}

/** GPU-ms a ms for a tenant's retries: some of its share, or of what is free, whichever is more. */
function retryMsPerMs({ shareMsPerMs, poolMsPerMs }: Refusal, spareRatio: number): number {
  const spareMsPerMs = poolMsPerMs * spareRatio;
  return Math.max(shareMsPerMs * RETRY_SHARE_RATIO, spareMsPerMs * RETRY_SPARE_RATIO);
}
