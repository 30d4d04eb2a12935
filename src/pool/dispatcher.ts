import type { FairAccount } from "../admission/waiting-request.ts";
import { LeaseId } from "../protocol/ids.ts";
import type { RouteResult } from "../routing/route-result.ts";
import { routeResult } from "../routing/route-result.ts";
import { claimedPaceMs } from "./claimed-pace.ts";
import { kvPeerOf } from "./kv-peer.ts";
import type { Lease } from "./lease-book.ts";
import type { Option } from "./option.ts";
import type { PoolEffect } from "./pool-effect.ts";
import type { PoolParts } from "./pool-parts.ts";
import type { PoolRequest } from "./pool-request.ts";
import { elapsedMsOf, limitsOf } from "./pool-request.ts";
import type { PoolState } from "./pool-state.ts";
import { urgencyOf } from "./urgency.ts";

/** Sends requests to replicas: each takes a slot, a lease, and its cost from the tenant's account. */
export class Dispatcher {
  readonly #parts: PoolParts;
  readonly #state: PoolState;
  readonly #epoch: string;

  constructor(parts: PoolParts, state: PoolState, epoch: string) {
    this.#parts = parts;
    this.#state = state;
    this.#epoch = epoch;
  }

  /** Sends a request to the replica that was chosen; `account` is the one that was charged for it. */
  dispatch(request: PoolRequest, option: Option, account: FairAccount, nowMs: number): PoolEffect {
    const { offer, costMs } = request;
    const charge = { account, costMs, chargedMs: costMs, isCharged: true, isHedge: false };
    const lease = this.#give(request, option, charge, nowMs);
    this.#noteExcess(request, lease);
    this.#parts.hedgeBudget.dispatched();
    this.#parts.retryAfter.sent(costMs, nowMs);
    this.#parts.totals.dispatched(request, this.#routeOf(request, option), nowMs);
    if (!offer.isRetry) this.#parts.tenants.count(offer.tenantId, { kind: "admitted" }, nowMs);
    const told = this.#told(request, option, lease, nowMs);
    // Behind that, or the replica that is to have the prompt would be named as one that has it.
    const split = this.#split(request, option, lease, nowMs);
    return { kind: "dispatch", ...told, dispatch: { ...told.dispatch, ...split } };
  }

  /** Sends a second copy of a request that a lease is for. Its tenant has been charged already. */
  hedge(request: PoolRequest, option: Option, first: Lease, nowMs: number): PoolEffect {
    const { account, costMs, chargedMs } = first;
    const charge = { account, costMs, chargedMs, isCharged: false, isHedge: true };
    this.#state.counts.hedged += 1;
    const lease = this.#give(request, option, charge, nowMs);
    lease.twinId = first.leaseId;
    first.twinId = lease.leaseId;
    return { kind: "hedge", ...this.#told(request, option, lease, nowMs) };
  }

  /** Has a request's prompt computed elsewhere, if that is how it was placed. */
  #split(request: PoolRequest, { split, ownCachedTokens }: Option, lease: Lease, nowMs: number) {
    if (split === undefined) return {};
    this.#state.counts.dispatched += 1;
    this.#state.counts.split += 1;
    const dispatchNumber = this.#state.counts.dispatched;
    const place = { leaseId: lease.leaseId, dispatchNumber, ownCachedTokens };
    lease.prefill = this.#parts.prefills.take(request, split, place, nowMs);
    const { replicaId, endpointUrl, state } = split.replica;
    const { transport } = state.settings;
    const dispatch = `${this.#epoch}.${dispatchNumber}`;
    const { limitMs } = split;
    const how = transport === undefined ? {} : { transport };
    return { prefillAt: { replicaId, endpointUrl, ...how, dispatch, limitMs } };
  }

  #give(
    request: PoolRequest,
    { replica, foundTokens, cachedTokens, foreseen }: Option,
    charge: Pick<Lease, "account" | "costMs" | "chargedMs" | "isCharged" | "isHedge">,
    nowMs: number,
  ): Lease {
    const { requestId, offer, promptTokens, emittedTokens } = request;
    const { outputTokens, outputTokensHigh } = request;
    const {
      tenantId,
      modelId,
      replicaModelId,
      promised: { tpot, tbtMaxMs } = offer.targets,
    } = offer;
    const limit = request.clampedOutputTokensMax ?? offer.outputTokensMax;
    const outputTokensMax = limit === undefined ? undefined : Math.max(1, limit - emittedTokens);
    this.#state.counts.dispatched += 1;
    const dispatchNumber = this.#state.counts.dispatched;
    const leaseId = LeaseId.parse(`${this.#epoch}.${dispatchNumber}`);
    const { speedRatio } = replica.loadAt(nowMs);
    const claimedMs = claimedPaceMs(replica, { promptTokens, outputTokens }, nowMs);
    const expected = { promptTokens, cachedTokens, outputTokensMax };
    const known = { leaseId, tenantId, modelId, dispatchNumber, ...expected };
    const promised = { tpotMs: tpot?.limitMs, tbtMs: tbtMaxMs };
    replica.take({ ...known, ...promised, expectedOutputTokens: outputTokens }, nowMs);
    if (offer.chain !== undefined) {
      replica.prefixes.note(offer.chain, { isForeign: replica.plain !== undefined, nowMs });
    }
    const { replicaId } = replica;
    const { weight } = replica.state.settings;
    if (weight !== undefined) this.#parts.turns.take(replicaId, weight);
    const lease: Lease = {
      ...known,
      ...charge,
      requestId,
      replicaModelId,
      replicaId,
      promptBytes: offer.promptBytes,
      foundTokens,
      emittedTokens,
      outputTokens,
      outputTokensHigh,
      operation: offer.operation ?? "chat",
      isStreamed: offer.isStreamed,
      tokensSoFar: 1,
      speedRatio,
      ...(claimedMs !== undefined && { claimedPaceMs: claimedMs }),
      foreseen,
      spentMs: elapsedMsOf(request, nowMs),
      dispatchedAtMs: nowMs,
      expiresAtMs: nowMs + this.#parts.limits.leaseMs,
      isLost: false,
    };
    this.#parts.leases.add(lease);
    return lease;
  }

  /** Makes an excess request that has not begun give way, if one in profile is feasible without it. */
  displaceFor(request: PoolRequest, nowMs: number): PoolEffect[] {
    const { displacement, replicas, placement, mechanisms, leases } = this.#parts;
    if (!mechanisms.displacement || !request.isInProfile) return [];
    // Room on a replica is not what it waits for.
    if (this.#parts.isModelFull(request.offer.modelId)) return [];
    const displaced = displacement.choose(({ leaseId, replicaId }) => {
      const replica = replicas.get(replicaId);
      const lease = leases.get(leaseId);
      if (replica === undefined || lease === undefined || lease.isLost) return false;
      if (replica.conditionAt(nowMs) !== "ready") return false;
      const moment = { nowMs, isQueueEmpty: false };
      return placement.couldTake(request, replica, moment, lease);
    }, nowMs);
    if (displaced === undefined) return [];
    this.#state.counts.displaced += 1;
    const { requestId, leaseId } = displaced;
    return [{ kind: "displace", requestId, leaseId }];
  }

  /** A lease as its holder gets it: its name is the mark of its dispatch as well. */
  #told(request: PoolRequest, option: Option, lease: Lease, nowMs: number) {
    const { requestId, leaseId, replicaId } = lease;
    const { endpointUrl, plain, state } = option.replica;
    const { transport } = state.settings;
    const peer = kvPeerOf(request, option, this.#parts.replicas, nowMs);
    const how = {
      ...(plain && { plain }),
      ...(transport && { transport }),
      ...(plain?.takesPriorities && { urgency: this.#urgencyOf(request, nowMs) }),
      ...(peer && { kvPeerUrl: peer.endpointUrl }),
    };
    const sent = { replicaId, endpointUrl, ...how, dispatch: leaseId };
    const forecast = toForecast(request, option.foreseen, nowMs);
    return { requestId, leaseId, dispatch: { ...sent, ...forecast } };
  }

  /** By what was promised: by a tighter wish nobody gets ahead of others. */
  #urgencyOf(request: PoolRequest, nowMs: number): number {
    const { offer, promptTokens, outputTokensHigh: outputTokens, isInProfile } = request;
    const promised = { ...offer, targets: offer.promised ?? offer.targets };
    const { firstTokenMsMax } = this.#parts.intake;
    const { ttftLimitMs, e2eLimitMs } = limitsOf(
      promised,
      { promptTokens, outputTokens },
      firstTokenMsMax,
    );
    const leftMs = Math.min(ttftLimitMs, e2eLimitMs) - elapsedMsOf(request, nowMs);
    return urgencyOf({ isInProfile, band: offer.share.band, leftMs });
  }

  #routeOf({ offer, routeHash }: PoolRequest, { replica, cachedTokens }: Option): RouteResult {
    const { replicas } = this.#parts;
    return routeResult({
      isRetry: offer.isRetry,
      cachedTokens,
      routeHash,
      chosen: replica,
      replicas,
    });
  }

  /**
   * A whole answer never says that it has begun, so it is not taken back either; nor is one that had begun
   * before.
   */
  #noteExcess({ requestId, offer, isInProfile }: PoolRequest, { leaseId, replicaId }: Lease): void {
    if (isInProfile || !offer.isStreamed || offer.continued !== undefined) return;
    this.#parts.displacement.dispatched({ leaseId, requestId, replicaId });
  }
}

/** A pace that the engine stretches as far as it may is the slowest; one without a bound is not told. */
function toldPaceMs({ boundMs, keptMs }: Option["foreseen"]["tpot"]): number {
  return keptMs === Infinity ? boundMs : Math.max(boundMs, keptMs);
}

/** What the holder of a lease is told of how the pool sees its request. */
function toForecast(request: PoolRequest, foreseen: Option["foreseen"], nowMs: number) {
  const { clampedOutputTokensMax, limits, offeredAtMs, isInProfile } = request;
  return {
    queuedMs: nowMs - offeredAtMs,
    firstTokenBudgetMs: Math.max(0, limits.ttftLimitMs - elapsedMsOf(request, nowMs)),
    forecast: { ttftMs: foreseen.ttft.boundMs, tpotMs: toldPaceMs(foreseen.tpot) },
    isInProfile,
    ...(clampedOutputTokensMax !== undefined && { clampedOutputTokensMax }),
  };
}
