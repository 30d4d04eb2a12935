import { DEFAULT_OVERLOAD_LADDER, nextStep } from "../admission/overload-ladder.ts";
import type { RequestId } from "../protocol/ids.ts";
import type { Replica } from "../replicas/replica.ts";
import type { Dispatcher } from "./dispatcher.ts";
import { clamped, toPoolRequest } from "./intake.ts";
import type { Offer, Rejection } from "./offer.ts";
import { Patience } from "./patience.ts";
import type { Option, Placed } from "./option.ts";
import type { PoolEffect } from "./pool-effect.ts";
import type { PoolParts } from "./pool-parts.ts";
import type { PoolRequest } from "./pool-request.ts";
import { elapsedMsOf, targetMsOf } from "./pool-request.ts";
import type { PoolState } from "./pool-state.ts";
import { Refuser } from "./refuser.ts";
import { accountOf, WaitingList } from "./waiting-list.ts";

/** Requests tried before a new one, whose turn may be theirs; more would make arrivals expensive. */
const TRIES_PER_ARRIVAL = 8;
/** Requests tried when something has become free; what is left over is tried at the next event. */
const TRIES_PER_EVENT = 64;
const CANDIDATES_MAX = 32;
const NOWHERE: Placed = { chosen: undefined, best: undefined };

/** Whether a request waits now, or why it cannot. */
type Waits =
  | { readonly kind: "waits"; readonly effects: PoolEffect[] }
  | { readonly kind: "cannot"; readonly reason: Rejection["reason"] };

/** Gives every offer its verdict: now, later or never. */
export class Reception {
  readonly #parts: PoolParts;
  readonly #state: PoolState;
  readonly #dispatcher: Dispatcher;
  readonly #refuser: Refuser;
  readonly #patience: Patience;
  readonly #list: WaitingList;

  constructor(parts: PoolParts, state: PoolState, dispatcher: Dispatcher) {
    this.#parts = parts;
    this.#state = state;
    this.#dispatcher = dispatcher;
    this.#refuser = new Refuser(parts, state);
    this.#patience = new Patience(parts, state);
    this.#list = new WaitingList(parts.queue, state);
  }

  /** When the next verdict on somebody who waits is due. */
  nextDueAtMs(nowMs: number): number | undefined {
    const dropAtMs = this.#parts.queue.nextDropAtMs;
    const { relearnUntilMs } = this.#state;
    if (dropAtMs === undefined || relearnUntilMs <= nowMs) return dropAtMs;
    return Math.min(dropAtMs, relearnUntilMs);
  }

  /** Takes an offer in. */
  receive(offer: Offer, nowMs: number): PoolEffect[] {
    const { tenants, intake, queue } = this.#parts;
    const request = toPoolRequest(offer, intake, this.#parts.capacity(nowMs), nowMs);
    this.#state.counts.offered += 1;
    tenants.arrives(offer.tenantId, offer.share, offer.promised ?? offer.targets, nowMs);
    request.isInProfile = this.#claim(request, nowMs);
    if (!offer.isRetry) {
      const { isInProfile, costMs } = request;
      tenants.count(offer.tenantId, { kind: "offered", isInProfile, costMs }, nowMs);
    }
    if (this.#state.isClosed === true) {
      return [this.#turnAway(request, nowMs)];
    }
    if (queue.size > 0 && this.#wantsToWait(request, nowMs)) return this.#takeTurn(request, nowMs);
    // Those who wait go first, also before somebody who would not wait.
    const effects = this.#serveInTurn(nowMs, TRIES_PER_ARRIVAL, new Set());
    const placed = this.#place(request, nowMs);
    if (placed.chosen !== undefined) return [...effects, this.#seat(request, placed.chosen, nowMs)];
    effects.push(...this.#settle(request, placed, nowMs));
    if (!queue.has(request.requestId)) return effects;
    return [...effects, ...this.#dispatcher.displaceFor(request, nowMs)];
  }

  /** Lets those who wait have what has become free, on one replica or anywhere. */
  serve(nowMs: number, changed?: Replica): PoolEffect[] {
    return this.#serveInTurn(nowMs, TRIES_PER_EVENT, new Set(), changed);
  }

  /** Gives up on those whose time has come. */
  dropDue(nowMs: number): PoolEffect[] {
    return this.#parts.queue.takeDue(nowMs).flatMap(({ requestId }) => {
      const request = this.#list.forget(requestId);
      return this.#settle(request, this.#place(request, nowMs), nowMs, "deadline-passed");
    });
  }

  /** Refuses all who wait. */
  turnAllAway(nowMs: number): PoolEffect[] {
    return [...this.#state.waiting.keys()].flatMap((requestId) => {
      const request = this.#list.remove(requestId);
      return request === undefined ? [] : [this.#turnAway(request, nowMs)];
    });
  }

  /** Takes a request back that waits. */
  withdraw(requestId: RequestId, nowMs: number): PoolEffect[] {
    const request = this.#list.remove(requestId);
    if (request === undefined) return [];
    return [this.#refuser.refuse(request, { reason: "withdrawn" }, nowMs)];
  }

  /** Nobody is served here now, but perhaps by the model that its tenant's ladder asks instead. */
  #turnAway(request: PoolRequest, nowMs: number): PoolEffect {
    const { offer, ladderTaken } = request;
    const left = offer.overload?.slice(ladderTaken) ?? [];
    const fallback = left.find((step) => step.kind === "fallback");
    const instead = fallback !== undefined && { fallbackModelId: fallback.modelId };
    return this.#refuser.refuse(request, { reason: "closed", ...instead }, nowMs);
  }

  #wantsToWait(request: PoolRequest, nowMs: number): boolean {
    return this.#nextStep(request, nowMs).step.kind === "queue";
  }

  /** Those who wait go first, as far as it is their turn. */
  #takeTurn(request: PoolRequest, nowMs: number): PoolEffect[] {
    const effects = this.#settle(request, NOWHERE, nowMs);
    const tried = new Set<RequestId>();
    effects.push(...this.#serveInTurn(nowMs, TRIES_PER_ARRIVAL, tried));
    const { requestId } = request;
    if (!this.#parts.queue.has(requestId) || tried.has(requestId)) return effects;
    return [...effects, ...this.#tryWaiting(requestId, nowMs)];
  }

  #serveInTurn(
    nowMs: number,
    triesMax: number,
    tried: Set<RequestId>,
    changed?: Replica,
  ): PoolEffect[] {
    const { queue, leases } = this.#parts;
    const effects: PoolEffect[] = [];
    let hasServed = queue.size > 0;
    while (hasServed) {
      hasServed = false;
      for (const { requestId } of this.#candidates(nowMs)) {
        if (tried.has(requestId)) continue;
        if (tried.size >= triesMax || leases.isFull) return effects;
        tried.add(requestId);
        effects.push(...this.#tryWaiting(requestId, nowMs, changed));
        // What is served changes whose turn it is.
        hasServed = !queue.has(requestId);
        if (hasServed) break;
      }
    }
    return effects;
  }

  /** Who may be next; those of a model that is full would only stand in the way of the others. */
  #candidates(nowMs: number): readonly { readonly requestId: RequestId }[] {
    const { queue } = this.#parts;
    if (!this.#parts.isAnyModelFull) return queue.candidates(nowMs, CANDIDATES_MAX);
    const isHeld = (requestId: RequestId): boolean =>
      this.#parts.isModelFull(this.#list.get(requestId).offer.modelId);
    return queue.candidates(nowMs, CANDIDATES_MAX, isHeld);
  }

  /** Dispatches a request that waits, if it can be. Where only one replica changed, that one is asked first. */
  #tryWaiting(requestId: RequestId, nowMs: number, changed?: Replica): PoolEffect[] {
    const request = this.#list.get(requestId);
    const chosen =
      this.#placeWaiting(request, nowMs, changed) ?? this.#placePromoted(request, nowMs, changed);
    if (chosen === undefined) return this.#dispatcher.displaceFor(request, nowMs);
    const account = this.#list.take(requestId);
    return [this.#dispatcher.dispatch(request, chosen, account, nowMs)];
  }

  #placeWaiting(request: PoolRequest, nowMs: number, changed?: Replica): Option | undefined {
    const moment = { nowMs, isQueueEmpty: false };
    // What a model of limited number waits for may become free on one replica and be used on another.
    const isAnywhere = changed === undefined || this.#parts.isModelLimited(request.offer.modelId);
    const isPossible = isAnywhere || this.#parts.placement.couldTake(request, changed, moment);
    return isPossible ? this.#place(request, nowMs).chosen : undefined;
  }

  /**
   * Places an excess request as one in profile, if its tenant's guarantee covers it by now. Only then is
   * the cost claimed: a request that cannot be served must not use up what another could.
   */
  #placePromoted(request: PoolRequest, nowMs: number, changed?: Replica): Option | undefined {
    const { tenants } = this.#parts;
    const { offer, costMs } = request;
    const rateMsPerMs = this.#parts.rateMsPerMs(nowMs);
    if (request.isInProfile) return undefined;
    if (tenants.inProfileAfterMs(offer.tenantId, costMs, rateMsPerMs, nowMs) > 0) return undefined;
    request.isInProfile = true;
    const chosen = this.#placeWaiting(request, nowMs, changed);
    request.isInProfile = chosen !== undefined && this.#claim(request, nowMs);
    if (!request.isInProfile) return undefined;
    this.#list.promote(request, nowMs);
    return chosen;
  }

  /** Dispatches a request that has not waited. */
  #seat(request: PoolRequest, chosen: Option, nowMs: number): PoolEffect {
    const account = accountOf(request);
    this.#parts.queue.charge(account, request.costMs);
    return this.#dispatcher.dispatch(request, chosen, account, nowMs);
  }

  /** Goes down the tenant's ladder with a request that cannot be placed now. */
  #settle(
    given: PoolRequest,
    { best }: Placed,
    nowMs: number,
    lateReason?: "deadline-passed",
  ): PoolEffect[] {
    let request = given;
    let reason: Rejection["reason"] = lateReason ?? "infeasible";
    for (;;) {
      const { step, taken } = this.#nextStep(request, nowMs);
      request.ladderTaken = taken;
      if (step.kind === "queue") {
        const waits = this.#letWait(request, step.ratio * targetMsOf(request), nowMs);
        if (waits.kind === "waits") return waits.effects;
        request.ladderTaken = taken + 1;
        // Of one that has waited, that it cannot any longer is known.
        if (lateReason === undefined || waits.reason !== "infeasible") reason = waits.reason;
      } else if (step.kind === "clamp") {
        request = this.#clamp(request, step.outputTokensMax, nowMs);
        const { chosen } = this.#place(request, nowMs);
        if (chosen !== undefined) return [this.#seat(request, chosen, nowMs)];
      } else {
        const fallback = step.kind === "fallback" ? { fallbackModelId: step.modelId } : {};
        if (reason !== "queue-full") reason = this.#patience.whyNever(request, nowMs) ?? reason;
        const facts = { reason, predictedWaitMs: best?.ttftMs, ...fallback };
        return [this.#refuser.refuse(request, facts, nowMs)];
      }
    }
  }

  #nextStep(request: PoolRequest, nowMs: number): ReturnType<typeof nextStep> {
    const { offer, ladderTaken: taken } = request;
    const waitedRatio = elapsedMsOf(request, nowMs) / targetMsOf(request);
    return nextStep(offer.overload ?? DEFAULT_OVERLOAD_LADDER, { waitedRatio, taken });
  }

  /** Cuts an output short. What its tenant is charged is then less as well. */
  #clamp(request: PoolRequest, outputTokensMax: number, nowMs: number): PoolRequest {
    const { intake, mechanisms, tenants } = this.#parts;
    const shorter = clamped(request, outputTokensMax, intake, this.#parts.capacity(nowMs));
    if (request.isInProfile && mechanisms.guarantees) {
      const deltaMs = shorter.costMs - request.costMs;
      tenants.correct(request.offer.tenantId, deltaMs, this.#parts.rateMsPerMs(nowMs), nowMs);
    }
    return shorter;
  }

  /** Lets a request wait, until its target is spent up to a point, or says why it cannot. */
  #letWait(request: PoolRequest, elapsedMsMax: number, nowMs: number): Waits {
    const limit = this.#patience.limitOf(request, elapsedMsMax, nowMs);
    if (limit.kind === "cannot") return limit;
    const room = this.#list.roomFor(request);
    if (room === "full") return { kind: "cannot", reason: "queue-full" };
    const goes = room === "free" ? undefined : this.#list.remove(room);
    const effects =
      goes === undefined ? [] : [this.#refuser.refuse(goes, { reason: "queue-full" }, nowMs)];
    this.#list.add(request, limit.dropAtMs, nowMs);
    return { kind: "waits", effects };
  }

  #place(request: PoolRequest, nowMs: number): Placed {
    const { placement, replicas, leases, queue } = this.#parts;
    if (leases.isFull || this.#parts.isModelFull(request.offer.modelId)) return NOWHERE;
    // A pool that has just begun knows only what its replicas say: first come those with a right.
    const isNew = nowMs < this.#state.relearnUntilMs && replicas.hasReporting;
    if (!request.isInProfile && isNew) return NOWHERE;
    const moment = { nowMs, isQueueEmpty: queue.size === 0 };
    const placed = placement.place(request, replicas, moment);
    if (placed.best !== undefined || replicas.ejectedRatio === 0) return placed;
    replicas.probeIfNoneIsWell(nowMs);
    return placement.place(request, replicas, moment);
  }

  /** Takes a request's cost from what its tenant is guaranteed, if it is within that. */
  #claim({ offer, costMs }: PoolRequest, nowMs: number): boolean {
    const { mechanisms, tenants } = this.#parts;
    if (!mechanisms.guarantees) return true;
    return tenants.take(offer.tenantId, costMs, this.#parts.rateMsPerMs(nowMs), nowMs);
  }
}
