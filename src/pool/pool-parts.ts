import { courtesyRatio } from "../admission/courtesy.ts";
import { Displacement } from "../admission/displacement.ts";
import { HoldBack } from "../admission/hold-back.ts";
import { RetryAfter } from "../admission/retry-after.ts";
import { WaitQueue } from "../admission/wait-queue.ts";
import type { Random } from "../base/random.ts";
import { randomOf } from "../base/random.ts";
import { Calibration } from "../forecast/calibration.ts";
import { OutputLengths } from "../forecast/output-lengths.ts";
import type { ModelId } from "../protocol/ids.ts";
import type { ReplicaLoad } from "../replicas/replica-load.ts";
import { ReplicaSet } from "../replicas/replica-set.ts";
import { Turns } from "../routing/turns.ts";
import type { LivePool } from "../tenants/live-configuration.ts";
import type { Capacity } from "./capacity.ts";
import { capacityOf } from "./capacity.ts";
import { FailingTenants } from "./failing-tenants.ts";
import { HedgeBudget } from "./hedge-budget.ts";
import type { IntakeParts } from "./intake.ts";
import { LeaseBook } from "./lease-book.ts";
import type { Mechanisms } from "./mechanisms.ts";
import { Placement } from "./placement.ts";
import type { PoolLimits } from "./pool-limits.ts";
import type { PoolRequest } from "./pool-request.ts";
import type { PoolState } from "./pool-state.ts";
import { PoolTotals } from "./pool-totals.ts";
import { PromptTotals } from "./prompt-totals.ts";
import { replicaSettingsOf } from "./replica-settings.ts";
import { ReplicaWaits } from "./replica-waits.ts";
import { PrefillBookings } from "./prefill-bookings.ts";
import { RunningCosts } from "./running-costs.ts";
import { Teacher } from "./teacher.ts";
import { TenantBook } from "./tenant-book.ts";
import { TokenEstimate } from "./token-estimate.ts";
import { accountOf } from "./waiting-list.ts";

/** Replicas come, go and change their speed; what a pool can do is measured anew after so long. */
const CAPACITY_AGE_MS_MAX = 1_000;
const PROMISES_INTERVAL_MS = 1_000;

/** The cores that a pool is made of, each over its own part of the state. */
export class PoolParts {
  readonly limits: PoolLimits;
  readonly mechanisms: Mechanisms;
  readonly random: Random;
  readonly replicas: ReplicaSet;
  readonly leases: LeaseBook;
  readonly tenants: TenantBook;
  readonly failingTenants: FailingTenants;
  readonly queue: WaitQueue;
  readonly displacement: Displacement;
  readonly holdBack: HoldBack;
  readonly retryAfter: RetryAfter;
  readonly hedgeBudget: HedgeBudget;
  readonly calibration: Calibration;
  readonly totals: PoolTotals;
  readonly promptTotals: PromptTotals;
  readonly intake: IntakeParts;
  readonly waits: ReplicaWaits;
  readonly turns: Turns;
  readonly placement: Placement;
  readonly prefills: PrefillBookings;
  readonly runningCosts: RunningCosts;
  readonly teacher: Teacher;
  readonly #state: PoolState;

  constructor(state: PoolState, limits: PoolLimits, mechanisms: Mechanisms) {
    this.#state = state;
    this.limits = limits;
    this.mechanisms = mechanisms;
    this.random = randomOf(state.random);
    this.replicas = new ReplicaSet(
      { replicasMax: limits.replicasMax, countsLedger: mechanisms.ledger },
      state.replicas,
    );
    this.leases = new LeaseBook(limits.leasesMax, state.leases);
    this.tenants = new TenantBook(limits.tenantsMax, state.tenants, state.guaranteed);
    this.failingTenants = new FailingTenants(state.failingTenants);
    this.queue = new WaitQueue(
      {
        requestsMax: limits.queueMax,
        tenantRequestsMax: limits.tenantQueueMax,
        isFair: mechanisms.fairness,
        ages: mechanisms.aging,
      },
      state.queue,
    );
    this.displacement = new Displacement({}, state.displacement);
    this.holdBack = new HoldBack({}, state.holdBack);
    this.retryAfter = new RetryAfter({}, state.retryAfter);
    this.hedgeBudget = new HedgeBudget(state.hedgeBudget);
    this.totals = new PoolTotals(state.totals);
    this.promptTotals = new PromptTotals(state.promptTotals);
    this.calibration = new Calibration({}, state.calibration);
    const outputLengths = new OutputLengths({}, state.outputLengths);
    const tokenEstimate = new TokenEstimate(state.tokenEstimate);
    this.intake = { tokenEstimate, outputLengths, firstTokenMsMax: limits.firstTokenMsMax };
    this.waits = new ReplicaWaits(outputLengths);
    this.turns = new Turns(state.turns);
    this.placement = new Placement({
      replicas: this.replicas,
      calibration: this.calibration,
      waits: this.waits,
      turns: this.turns,
      holdBack: this.holdBack,
      courtesyRatio: (request, nowMs) => this.#courtesyRatio(request, nowMs),
      guardedTtftMs: () => state.guardedTtftMs ?? Infinity,
      mechanisms,
      random: this.random,
    });
    this.prefills = new PrefillBookings(this.replicas, mechanisms);
    this.runningCosts = new RunningCosts(this, state);
    this.teacher = new Teacher(this, this.calibration);
  }

  /** What costs are reckoned in, measured anew now and then; `undefined` while no replica is ready. */
  capacity(nowMs: number): Capacity | undefined {
    const known = this.#state.capacity;
    if (known !== undefined && nowMs - known.measuredAtMs < CAPACITY_AGE_MS_MAX) return known;
    const loads: ReplicaLoad[] = [];
    for (const replica of this.replicas) {
      if (replica.conditionAt(nowMs) === "ready") loads.push(replica.loadAt(nowMs));
    }
    const measured = capacityOf(loads);
    // While nobody is ready, what was there last is the best guess of what will be.
    if (measured !== undefined) this.#state.capacity = { ...measured, measuredAtMs: nowMs };
    return this.#state.capacity;
  }

  /** GPU-ms that the pool has in a millisecond; 0 before any replica was ready. */
  rateMsPerMs(nowMs: number): number {
    return this.capacity(nowMs)?.rateMsPerMs ?? 0;
  }

  /** Lets in as much excess as promises allow. */
  watchPromises(nowMs: number): void {
    if (nowMs - (this.#state.promisesWatchedAtMs ?? -Infinity) < PROMISES_INTERVAL_MS) return;
    this.#state.promisesWatchedAtMs = nowMs;
    this.holdBack.rise(nowMs);
    const guardedTtftMs = this.tenants.tightestTtftMs(nowMs);
    if (guardedTtftMs < Infinity) this.#state.guardedTtftMs = guardedTtftMs;
    else delete this.#state.guardedTtftMs;
    if (this.tenants.isAnyBurning(nowMs)) this.holdBack.broken(nowMs);
  }

  #courtesyRatio(request: PoolRequest, nowMs: number): number {
    const leadMs = this.queue.leadMsOf(accountOf(request));
    const isSurprising = this.tenants.isSurprising(request.offer.tenantId);
    return courtesyRatio(leadMs, this.rateMsPerMs(nowMs), isSurprising);
  }

  /** Whether a model has as many requests under way as it may have, wherever they are. */
  isModelFull(modelId: ModelId): boolean {
    const requestsMax = this.#state.modelLimits.get(modelId) ?? Infinity;
    return this.leases.countOf(modelId) >= requestsMax;
  }

  /** Whether any model has as many. */
  get isAnyModelFull(): boolean {
    for (const modelId of this.#state.modelLimits.keys()) {
      if (this.isModelFull(modelId)) return true;
    }
    return false;
  }

  /** Whether a model may have only so many requests under way. */
  isModelLimited(modelId: ModelId): boolean {
    return this.#state.modelLimits.has(modelId);
  }

  /** Follows the configuration, and forgets what is remembered of replicas that have left. */
  configure(pool: LivePool): void {
    this.#state.modelLimits.clear();
    for (const { modelId, requestsMax } of pool.modelLimits ?? []) {
      this.#state.modelLimits.set(modelId, requestsMax);
    }
    this.replicas.configure(replicaSettingsOf(pool));
    this.turns.keepOnly(new Set(pool.replicas.map(({ replicaId }) => replicaId)));
    for (const replicaId of this.#state.displacement.lastAtMs.keys()) {
      if (this.replicas.get(replicaId) === undefined) this.displacement.removeReplica(replicaId);
    }
  }

  checkInvariants(): void {
    this.queue.checkInvariants();
    this.leases.checkInvariants();
    this.tenants.checkInvariants();
    this.failingTenants.checkInvariants();
    this.replicas.checkInvariants((leaseId) => {
      const lease = this.leases.get(leaseId);
      return lease?.isLost === false || lease?.prefill?.isOver === false;
    });
    this.displacement.checkInvariants();
    this.holdBack.checkInvariants();
    this.retryAfter.checkInvariants();
    this.hedgeBudget.checkInvariants();
    this.calibration.checkInvariants();
    this.intake.outputLengths.checkInvariants();
  }
}
