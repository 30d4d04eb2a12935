import { assert } from "../base/assert.ts";
import type { KeyedHeapState } from "../base/heap.ts";
import { KeyedHeap } from "../base/heap.ts";
import type { RequestId } from "../protocol/ids.ts";
import { TenantId } from "../protocol/ids.ts";
import type { FairQueueState } from "./fair-queue.ts";
import { emptyFairQueue, FairQueue } from "./fair-queue.ts";
import type { FairAccount, WaitingRequest } from "./waiting-request.ts";
import { BANDS, bandOf } from "./waiting-request.ts";
import type { Room, WaitingRoomLimits, WaitingRoomState } from "./waiting-room.ts";
import { emptyWaitingRoom, WaitingRoom } from "./waiting-room.ts";

/** What a {@link WaitQueue} remembers. */
export interface WaitQueueState {
  readonly requests: Map<RequestId, { readonly request: WaitingRequest; band: number }>;
  /** One queue a rank: the bands of those in profile, then the bands of the others. */
  readonly ranks: readonly FairQueueState[];
  readonly room: WaitingRoomState;
  readonly drops: KeyedHeapState<RequestId>;
  /** Those not yet in band 0, by the instant at which they gain a band. */
  readonly promotions: KeyedHeapState<RequestId>;
}

/** The bounds of a {@link WaitQueue}, and what of it can be switched off to show what it is for. */
export interface WaitQueueOptions extends WaitingRoomLimits {
  /** False: in a band the earliest deadline of all tenants comes first. */
  readonly isFair: boolean;
  /** False: nobody gains a band. */
  readonly ages: boolean;
}

const DEFAULTS: WaitQueueOptions = {
  requestsMax: 10_000,
  tenantRequestsMax: 2_000,
  isFair: true,
  ages: true,
};
/** A waiting request gains a band so often. */
const BAND_MS = 2_000;
/** A later deadline counts as this one: its own tenant's urgent requests cannot pass it for ever. */
const DEADLINE_HORIZON_MS = 60_000;
/** How many of a tenant's requests are candidates: its first may be too large where a later one fits. */
const TENANT_CANDIDATES_MAX = 4;

/** Whose turn it always is in a queue that is not fair. */
const EVERYBODY = TenantId.parse("everybody");

/** No one waits. */
export function emptyWaitQueue(): WaitQueueState {
  return {
    requests: new Map(),
    ranks: Array.from({ length: 2 * BANDS }, emptyFairQueue),
    room: emptyWaitingRoom(),
    drops: { entries: [], added: 0 },
    promotions: { entries: [], added: 0 },
  };
}

/**
 * Requests that no replica can serve yet, in the order in which they are to be served.
 *
 * Those in profile come before all excess, of whatever band: what is guaranteed does not wait for
 * what is not, and guarantees leave a tenth of the pool. Among either, lower bands come first, and
 * who waits gains a band every two seconds: a stream of urgent requests delays others for so long
 * and no longer. In a band tenants take turns by virtual cost; each band counts for itself, since
 * a tenant that was passed over in one band has no claim on those of another. A tenant's own
 * requests go by deadline.
 *
 * Every call is O(log n) in the requests that wait. A request's own instants are the caller's.
 */
export class WaitQueue {
  readonly state: WaitQueueState;
  readonly #options: WaitQueueOptions;
  readonly #ranks: readonly FairQueue[];
  readonly #room: WaitingRoom;
  readonly #drops: KeyedHeap<RequestId>;
  readonly #promotions: KeyedHeap<RequestId>;

  constructor(options: Partial<WaitQueueOptions> = {}, state: WaitQueueState = emptyWaitQueue()) {
    this.#options = { ...DEFAULTS, ...options };
    this.state = state;
    this.#ranks = state.ranks.map((rank) => new FairQueue(rank));
    this.#room = new WaitingRoom(this.#options, state.room);
    this.#drops = new KeyedHeap(state.drops);
    this.#promotions = new KeyedHeap(state.promotions);
  }

  get size(): number {
    return this.state.requests.size;
  }

  /** How many wait in each band, the most urgent first; who waits gains bands. */
  countsByBand(): number[] {
    const counts = Array.from({ length: BANDS }, () => 0);
    for (const { band } of this.state.requests.values()) counts[band] = (counts[band] ?? 0) + 1;
    return counts;
  }

  /** Requests that were charged and have not been settled. */
  get requestsInFlight(): number {
    return this.#ranks.reduce((sum, rank) => sum + rank.requestsInFlight, 0);
  }

  has(requestId: RequestId): boolean {
    return this.state.requests.has(requestId);
  }

  get(requestId: RequestId): WaitingRequest | undefined {
    return this.state.requests.get(requestId)?.request;
  }

  /** Says whether another request may wait, among `requestsMax` at the most where that is given. */
  roomFor(account: FairAccount, requestsMax?: number): Room {
    return this.#room.roomFor(account, requestsMax);
  }

  /** Lets a request wait for which there is room. */
  add(given: WaitingRequest, nowMs: number): void {
    assert(!this.has(given.requestId), "a request waits once");
    assert(this.roomFor(given).kind === "free", "there is room for a request that waits");
    assert(given.weight > 0, "a weight is positive");
    // A copy, since the state holds no object that somebody else holds.
    const request = { ...given };
    const { requestId } = request;
    const bandsGained = Math.max(0, Math.floor((nowMs - request.sinceMs) / this.#bandMs));
    const band = Math.max(0, bandOf(request.band) - bandsGained);
    this.state.requests.set(requestId, { request, band });
    this.#room.add(request);
    this.#enter(request, band);
    if (band > 0) {
      this.#promotions.set(requestId, request.sinceMs + (bandsGained + 1) * this.#bandMs);
    }
    this.#drops.set(requestId, request.dropAtMs);
  }

  /** Takes a request out that is not served; `undefined` when it does not wait here. */
  remove(requestId: RequestId): WaitingRequest | undefined {
    const waiting = this.state.requests.get(requestId);
    if (waiting === undefined) return undefined;
    const { request, band } = waiting;
    this.state.requests.delete(requestId);
    this.#room.remove(request);
    this.#rankOf(request.isInProfile, band).remove(this.#turnOf(request.tenantId), requestId);
    this.#promotions.delete(requestId);
    this.#drops.delete(requestId);
    return request;
  }

  /**
   * Takes a request out that is served, and charges what it is predicted to cost there. Returns the
   * account that was charged: its band is the one that the request had come to.
   */
  take(requestId: RequestId, costMs: number): FairAccount {
    const waiting = this.state.requests.get(requestId);
    assert(waiting !== undefined, "a request that is taken waits");
    const { tenantId, weight, isInProfile } = waiting.request;
    const account = { tenantId, weight, isInProfile, band: waiting.band };
    // Before it leaves: a tenant whose last request it is would be lifted first, and charged on top.
    this.charge(account, costMs);
    this.remove(requestId);
    return account;
  }

  /** Charges a request that is served without having waited. */
  charge({ tenantId, weight, band, isInProfile }: FairAccount, costMs: number): void {
    this.#rankOf(isInProfile, bandOf(band)).charge(this.#turnOf(tenantId), costMs, weight);
  }

  /** A request that was charged has ended, and cost what it did. Each is settled once. */
  settle(
    { tenantId, weight, band, isInProfile }: FairAccount,
    cost: { readonly chargedMs: number; readonly actualMs: number },
  ): void {
    this.#rankOf(isInProfile, bandOf(band)).settle(this.#turnOf(tenantId), cost, weight);
  }

  /** A request that has not ended is going to cost so much more, or less, than its account was charged. */
  correct({ tenantId, weight, band, isInProfile }: FairAccount, deltaMs: number): void {
    this.#rankOf(isInProfile, bandOf(band)).correct(this.#turnOf(tenantId), deltaMs, weight);
  }

  /**
   * What an account's tenant has had beyond its turn, in predicted GPU-ms: by its weight, beyond the one
   * of its rank that waits and has had least.
   */
  leadMsOf({ tenantId, weight, band, isInProfile }: FairAccount): number {
    return weight * this.#rankOf(isInProfile, bandOf(band)).leadMsOf(this.#turnOf(tenantId));
  }

  /**
   * The first requests in the order in which they are to be served, few of any one tenant; none that
   * `isHeld`, as far as they can be told from others by looking at the first of each tenant.
   */
  candidates(
    nowMs: number,
    max: number,
    isHeld?: (requestId: RequestId) => boolean,
  ): WaitingRequest[] {
    this.#promote(nowMs);
    const candidates: WaitingRequest[] = [];
    for (const rank of this.#ranks) {
      if (candidates.length >= max) break;
      if (rank.isEmpty) continue;
      const heads = rank.heads({
        max: max - candidates.length,
        perTenantMax: this.#options.isFair ? TENANT_CANDIDATES_MAX : max,
        virtualCostOf: (requestId) => {
          const { costMs, weight } = this.#requestOf(requestId);
          return costMs / weight;
        },
        ...(isHeld !== undefined && { isHeld }),
      });
      for (const requestId of heads) candidates.push(this.#requestOf(requestId));
    }
    return candidates;
  }

  /** When the next request is due to be dropped. */
  get nextDropAtMs(): number | undefined {
    return this.#drops.firstPriority;
  }

  /** Takes out those that are due, the first due first. */
  takeDue(nowMs: number): WaitingRequest[] {
    const due: WaitingRequest[] = [];
    while ((this.#drops.firstPriority ?? Infinity) <= nowMs) {
      const requestId = this.#drops.first;
      const request = requestId === undefined ? undefined : this.remove(requestId);
      if (request !== undefined) due.push(request);
    }
    return due;
  }

  checkInvariants(): void {
    const { requests } = this.state;
    assert(this.#room.size === this.size, "every request has its place in the room");
    assert(this.#drops.size === this.size, "every request is dropped some time");
    for (const [requestId, { request, band }] of requests) {
      assert(this.#drops.has(requestId), "every request is dropped some time");
      assert(this.#promotions.has(requestId) === band > 0, "who is not in band 0 gets there");
      assert(band >= 0 && band <= bandOf(request.band), "nobody loses a band");
    }
    for (const rank of this.#ranks) rank.checkInvariants();
    this.#room.checkInvariants();
    this.#drops.checkInvariants();
    this.#promotions.checkInvariants();
  }

  get #bandMs(): number {
    return this.#options.ages ? BAND_MS : Infinity;
  }

  /** Whose turn a tenant's requests take. */
  #turnOf(tenantId: TenantId): TenantId {
    return this.#options.isFair ? tenantId : EVERYBODY;
  }

  #requestOf(requestId: RequestId): WaitingRequest {
    const waiting = this.state.requests.get(requestId);
    assert(waiting !== undefined, "a request in a rank is in the queue");
    return waiting.request;
  }

  #rankOf(isInProfile: boolean, band: number): FairQueue {
    const rank = this.#ranks[(isInProfile ? 0 : BANDS) + band];
    assert(rank !== undefined, "every band has its ranks");
    return rank;
  }

  #enter(
    { requestId, tenantId, isInProfile, deadlineAtMs, sinceMs }: WaitingRequest,
    band: number,
  ): void {
    const orderAtMs = Math.min(deadlineAtMs, sinceMs + DEADLINE_HORIZON_MS);
    this.#rankOf(isInProfile, band).add(this.#turnOf(tenantId), requestId, orderAtMs);
  }

  #promote(nowMs: number): void {
    while ((this.#promotions.firstPriority ?? Infinity) <= nowMs) {
      const requestId = this.#promotions.first;
      const waiting = requestId === undefined ? undefined : this.state.requests.get(requestId);
      assert(requestId !== undefined && waiting !== undefined, "who gains a band waits");
      const { request } = waiting;
      const turn = this.#turnOf(request.tenantId);
      this.#rankOf(request.isInProfile, waiting.band).remove(turn, requestId);
      waiting.band -= 1;
      this.#enter(request, waiting.band);
      const nextAtMs = (this.#promotions.firstPriority ?? nowMs) + this.#bandMs;
      if (waiting.band > 0) this.#promotions.set(requestId, nextAtMs);
      else this.#promotions.delete(requestId);
    }
  }
}
