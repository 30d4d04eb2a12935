import { checkFeasible, usableKvRatio } from "../admission/feasibility.ts";
import type { PastForecast } from "../forecast/calibration.ts";
import type { LatencyForecast } from "../forecast/latency.ts";
import { forecastLatency, idleTtftMs, kvFitsQuickly } from "../forecast/latency.ts";
import { LatestNames } from "../replicas/chain-names.ts";
import type { ReplicaLoad } from "../replicas/replica-load.ts";
import type { Replica } from "../replicas/replica.ts";
import { PICK_DEFAULTS, pickReplica } from "../routing/pick.ts";
import { tighteningRatioOf } from "../routing/tightening.ts";
import { rendezvousWeight } from "../routing/rendezvous.ts";
import { nominalRate } from "./capacity.ts";
import { isFit, isForWhole, isOfUse } from "./fitness.ts";
import type { Lease } from "./lease-book.ts";
import { idleLoad, loadWithout, NOBODY_THERE, UNGUARDED } from "./load-without.ts";
import { believedTpotMs, believedTtftMs, othersTtftMs } from "./believed-bounds.ts";
import { TPOT_BELIEVED_RATIO_MAX } from "./believed-bounds.ts";
import { decidingPaceMs, keptPaceMs, predictedPaceMs, slowestPaceMs } from "./foreseen-pace.ts";
import type { Option, Placed } from "./option.ts";
import { roomiestOf } from "./option.ts";
import type { PlacementMoment, PlacementParts } from "./placement-parts.ts";
import type { PoolRequest } from "./pool-request.ts";
import { elapsedMsOf } from "./pool-request.ts";
import type { Split } from "./splits.ts";
import { Splits } from "./splits.ts";

/** A replica as a request would find it, and how that would fare there. */
interface Given {
  readonly profile: string;
  readonly load: ReplicaLoad;
  readonly forecast: LatencyForecast;
  readonly split: Split | undefined;
}

/**
 * Chooses the replica for one request: forecasts it on every fit one, widens that to bounds that hold
 * at the promised level, keeps those where everybody's targets hold, and picks among them.
 */
export class Placement {
  readonly #parts: PlacementParts;
  readonly #names = new LatestNames();
  readonly #splits: Splits;

  constructor(parts: PlacementParts) {
    this.#parts = parts;
    this.#splits = new Splits(parts.replicas, parts.waits);
  }

  /** Chooses the replica to send a request to now, if any can keep all promises. */
  place(request: PoolRequest, replicas: Iterable<Replica>, moment: PlacementMoment): Placed {
    const options: Option[] = [];
    for (const replica of replicas) {
      if (!isFit(replica, request, moment.nowMs)) continue;
      if (!isForWhole(replica, request, replicas, moment.nowMs)) continue;
      options.push(this.#optionOf(request, replica, replica.loadAt(moment.nowMs), moment.nowMs));
    }
    const best = this.#hold(options, request, moment);
    const { random } = this.#parts;
    return { chosen: pickReplica(options, { random, ...PICK_DEFAULTS }), best };
  }

  /**
   * Whether a request could be sent to one replica, or could if another one that has no token there
   * were not there. Draws no chance.
   */
  couldTake(
    request: PoolRequest,
    replica: Replica,
    moment: PlacementMoment,
    without?: Lease,
  ): boolean {
    if (!isFit(replica, request, moment.nowMs, without === undefined ? 0 : 1)) return false;
    if (!isForWhole(replica, request, this.#parts.replicas, moment.nowMs)) return false;
    const present = replica.loadAt(moment.nowMs);
    const load = without === undefined ? present : loadWithout(present, without);
    const option = this.#optionOf(request, replica, load, moment.nowMs);
    this.#hold([option], request, moment);
    return option.isFeasible;
  }

  /** What a request's TTFT on an empty replica is believed to be at the most. */
  idleTtftBoundMs(request: PoolRequest, { profile }: Replica, ttftMs: number, nowMs: number) {
    const { tenantId } = request.offer;
    const { outputTokens } = request;
    const context = { profile, tenantId, outputTokens, targetMs: request.limits.ttftLimitMs };
    return believedTtftMs(this.#bound("ttft", ttftMs, context, nowMs), NOBODY_THERE);
  }

  /**
   * Whether a request could be sent to any replica if nothing else were there: if not, waiting is in
   * vain. True while no replica is ready, since then nobody can say.
   */
  couldEverTake(request: PoolRequest, replicas: Iterable<Replica>, nowMs: number): boolean {
    let isJudged = false;
    for (const replica of replicas) {
      if (!isOfUse(replica, request, nowMs)) continue;
      if (!isForWhole(replica, request, replicas, nowMs)) continue;
      isJudged = true;
      const idle = idleLoad(replica.loadAt(nowMs));
      if (this.#optionOf(request, replica, idle, nowMs).headroomRatio >= 0) return true;
    }
    return !isJudged;
  }

  /** In one place, or in two if that serves everybody better. */
  #optionOf(request: PoolRequest, replica: Replica, load: ReplicaLoad, nowMs: number): Option {
    const whole = this.#optionAt(request, replica, load, undefined, nowMs);
    const split = this.#splits.of(request, whole, nowMs);
    if (split === undefined) return whole;
    const parted = this.#optionAt(request, replica, load, split, nowMs);
    const isBetter = parted.headroomRatio >= 0 || parted.headroomRatio > whole.headroomRatio;
    return isBetter ? parted : whole;
  }

  #optionAt(
    request: PoolRequest,
    replica: Replica,
    load: ReplicaLoad,
    split: Split | undefined,
    nowMs: number,
  ): Option {
    const { offer, promptTokens, outputTokens } = request;
    const limits = this.#limitsAt(request, nowMs);
    const { profile } = replica;
    const { foundTokens, ownCachedTokens } = this.#cachedOn(replica, request, nowMs);
    const cachedTokens = split === undefined ? ownCachedTokens : promptTokens - split.restTokens;
    const { weight } = replica.state.settings;
    // Also what is fetched has to have room.
    const waits = this.#parts.waits.of(replica, load, promptTokens - ownCachedTokens, nowMs);
    const asked = { promptTokens, cachedTokens, outputTokens };
    const forecast = forecastLatency(asked, load, waits);
    const foreseen = this.#foresee(request, { profile, load, forecast, split }, nowMs);
    const ttftMs = believedTtftMs(foreseen.ttft, load);
    const { headroomRatio, roomRatio } = checkFeasible({
      bounds: {
        ttftMs,
        tpotMs: decidingPaceMs(believedTpotMs(foreseen.tpot, load), load),
        residentsTpotMs: this.#residentsBoundMs(forecast, profile, load, nowMs),
        longestStepMs: forecast.longestStepMs,
        e2eMs:
          ttftMs +
          slowestPaceMs(foreseen.tpot, forecast, load) * Math.max(0, request.outputTokensHigh - 1),
      },
      limits,
      elapsedMs: elapsedMsOf(request, nowMs),
      kvPeakTokens: this.#kvPeakTokens(replica, load, forecast, nowMs),
      load: this.#parts.mechanisms.residents ? load : { ...load, ...UNGUARDED },
      isInProfile: request.isInProfile,
    });
    return {
      replicaId: replica.replicaId,
      tighteningRatio: tighteningRatioOf(limits.tpotLimitMs, load),
      replica,
      foundTokens,
      cachedTokens,
      ownCachedTokens,
      uncachedTokens: promptTokens - ownCachedTokens,
      othersTtftMs: othersTtftMs(foreseen.ttft, forecast.ttftMs, idleTtftMs(asked, load)),
      foreseen,
      split,
      sequences: Math.max(load.sequences, replica.outstanding),
      capacity: weight ?? nominalRate(load),
      capacityRatio: replica.health.capacityRatio(nowMs),
      headroomRatio,
      roomRatio,
      isFeasible: headroomRatio >= 0,
      // Who has failed once should not be tried on the doubtful.
      isProbe: replica.health.isEjected && offer.excludedReplicaIds.length === 0,
      turn: weight === undefined ? 0 : this.#parts.turns.nextOf(replica.replicaId, weight),
      ttftMs: foreseen.ttft.boundMs,
      reportAgeMs: replica.reportAgeMs(nowMs),
      rendezvous: rendezvousWeight(request.routeHash, replica.hash),
    };
  }

  #foresee(
    request: PoolRequest,
    { profile, load, forecast, split }: Given,
    nowMs: number,
  ): Option["foreseen"] {
    const { offer, outputTokens } = request;
    const { tenantId } = offer;
    const { ttftLimitMs, tpotLimitMs, tbtMaxMs } = this.#limitsAt(request, nowMs);
    // Two replicas and a transfer err otherwise than one.
    const ttftProfile = split === undefined ? profile : `${profile} split`;
    const aheadMs = split === undefined ? 0 : split.prefillMs + split.transferMs;
    // Written out here and below: spreads would be most of what a decision costs.
    const ofTtft = { profile: ttftProfile, tenantId, outputTokens, targetMs: ttftLimitMs };
    const ofTpot = { profile, tenantId, outputTokens, targetMs: tpotLimitMs };
    return {
      ttft: this.#bound("ttft", aheadMs + forecast.ttftMs, ofTtft, nowMs),
      tpot: {
        ...this.#bound("tpot", predictedPaceMs(forecast, load), ofTpot, nowMs),
        keptMs: keptPaceMs(Math.min(tpotLimitMs, tbtMaxMs), load),
      },
    };
  }

  /** Of a prompt, what should be cached on a replica, and as how much that counts. */
  #cachedOn(
    { prefixes }: Replica,
    { offer, promptTokens, emittedTokens }: PoolRequest,
    nowMs: number,
  ) {
    const namedTokens = promptTokens - emittedTokens;
    const foundTokens = prefixes.hitRatio(this.#names.of(offer.chain), nowMs) * namedTokens;
    return { foundTokens, ownCachedTokens: Math.floor(prefixes.trustRatio * foundTokens) };
  }

  /** Held against the tightest of them, whoever's it is. */
  #residentsBoundMs(
    { residentsTpotMs, decodeStepMs }: LatencyForecast,
    profile: string,
    load: ReplicaLoad,
    nowMs: number,
  ): number {
    const { calibration, mechanisms } = this.#parts;
    const predictedMs = predictedPaceMs({ tpotMs: residentsTpotMs, decodeStepMs }, load);
    const targetMs = load.tightestTpotMs;
    if (!mechanisms.margin || targetMs === Infinity) return decidingPaceMs(predictedMs, load);
    const context = { profile, tenantId: "", targetMs };
    const boundMs = calibration.upperBoundMs("tpot", predictedMs, context, nowMs);
    return decidingPaceMs(Math.min(boundMs, TPOT_BELIEVED_RATIO_MAX * predictedMs), load);
  }

  #bound(
    dimension: "ttft" | "tpot",
    predictedMs: number,
    context: Required<Omit<PastForecast, "predictedMs" | "boundMs">>,
    nowMs: number,
  ): PastForecast {
    const { calibration, mechanisms } = this.#parts;
    const { profile, tenantId, outputTokens, targetMs } = context;
    const boundMs = mechanisms.margin
      ? calibration.upperBoundMs(dimension, predictedMs, context, nowMs)
      : predictedMs;
    return { profile, tenantId, outputTokens, targetMs, predictedMs, boundMs };
  }

  /**
   * Reckoned over all residents only where the sum of all ends, which never are there at once, is too
   * much. A request that is alone takes from nobody: whether it fits is its engine's to say.
   */
  #kvPeakTokens(
    replica: Replica,
    load: ReplicaLoad,
    forecast: LatencyForecast,
    nowMs: number,
  ): number {
    if (load.sequences === 0) return 0;
    if (kvFitsQuickly(forecast, load, usableKvRatio(false))) return forecast.kvPeakTokens;
    const ownTokens = forecast.kvPeakTokens - load.kvTokensExpected;
    const residentsTokens = this.#parts.waits.kvPeakTokens(replica, load, nowMs);
    return Math.min(forecast.kvPeakTokens, residentsTokens + ownTokens);
  }

  /**
   * Takes from every option's headroom what is held back from a request beyond its guarantee. Returns
   * the option that has most left.
   */
  #hold(
    options: readonly Option[],
    request: PoolRequest,
    { isQueueEmpty, nowMs }: PlacementMoment,
  ): Option | undefined {
    const { mechanisms, holdBack } = this.#parts;
    const roomiest = roomiestOf(options);
    if (roomiest === undefined) return undefined;
    const { headroomRatio } = roomiest;
    const holdRatio = request.isInProfile
      ? 1
      : holdBack.excessRatio({ queueIsEmpty: isQueueEmpty, headroomRatio }) -
        this.#parts.courtesyRatio(request, nowMs);
    for (const option of options) {
      // On an empty replica there is nobody whose room it could take, and nobody else to learn from.
      const heldRatio = option.sequences === 0 ? 0 : 1 - holdRatio;
      option.headroomRatio = Math.min(option.headroomRatio, option.roomRatio - heldRatio);
      if (!request.isInProfile && option.sequences > 0) {
        // A patient tenant's excess must not queue up so far that who is guaranteed an early token is late.
        const guardedRatio = holdRatio - option.othersTtftMs / this.#parts.guardedTtftMs();
        option.headroomRatio = Math.min(option.headroomRatio, guardedRatio);
      }
      option.isFeasible = !mechanisms.admission || option.headroomRatio >= 0;
    }
    // Asked anew, since less is held back on an empty replica than on the others.
    return roomiestOf(options);
  }

  /** What is late already has no first token to hurry for; only without drops does it come so far. */
  #limitsAt(request: PoolRequest, nowMs: number): PoolRequest["limits"] {
    const { limits } = request;
    if (this.#parts.mechanisms.drop || elapsedMsOf(request, nowMs) < limits.ttftLimitMs) {
      return limits;
    }
    return { ...limits, ttftLimitMs: Infinity, e2eLimitMs: Infinity };
  }
}
