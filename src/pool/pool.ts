import { assert } from "../base/assert.ts";
import type { Random } from "../base/random.ts";
import type { ReplicaHello, ReplicaReport } from "../protocol/engine-api.ts";
import type { ReplicaId, RequestId } from "../protocol/ids.ts";
import { LeaseId } from "../protocol/ids.ts";
import { ReplicaSet } from "../replicas/replica-set.ts";
import type { Replica } from "../replicas/replica.ts";
import type { LivePool } from "../tenants/live-configuration.ts";
import type { Verdict } from "./judge.ts";
import { judge, toPickRequest } from "./judge.ts";
import { LeaseBook } from "./lease-book.ts";
import type { Offer, Outcome, Rejection } from "./offer.ts";
import { couldTake } from "./pick-replica.ts";
import type { PoolEffect } from "./pool-effect.ts";
import type { PoolLimits } from "./pool-limits.ts";
import { POOL_LIMITS } from "./pool-limits.ts";
import type { PoolStatus } from "./pool-status.ts";
import { toReplicaStatus } from "./pool-status.ts";
import { TokenEstimate } from "./token-estimate.ts";
import type { Waiter } from "./wait-queue.ts";
import { WaitQueue } from "./wait-queue.ts";

/** The life a pool begins. */
export interface PoolOptions {
  /** Names this life; replicas echo it, so that the numbers of another life mean nothing. */
  readonly epoch: string;
  readonly startedAtMs: number;
  readonly random: Random;
  readonly limits?: Partial<PoolLimits>;
}

/** Nothing changes so fast that asking again sooner could help. */
const RETRY_AFTER_MS_MIN = 1_000;

/**
 * The one dispatcher of a cell's replicas: which request goes where, which waits, which is refused.
 *
 * A request goes to the replica with the least predicted wait. It waits only while some replica
 * could still answer in time; a hopeless one is refused at once, since serving it late would spend
 * work that others need in time. Events come in as calls, what to do goes out as effects, and
 * every offer gets exactly one verdict. Nothing is stored: after a restart a pool relearns from
 * its replicas' reports, in which requests of its previous life still count.
 */
export class Pool {
  readonly #limits: PoolLimits;
  readonly #epoch: string;
  readonly #random: Random;
  readonly #relearnUntilMs: number;
  readonly #replicas: ReplicaSet;
  readonly #queue = new WaitQueue();
  readonly #leases: LeaseBook;
  readonly #tokenEstimate = new TokenEstimate();
  #queueMax = 0;
  #wakeAtMs: number | undefined;
  #offered = 0;
  #dispatched = 0;
  #rejected = 0;

  constructor(options: PoolOptions) {
    this.#limits = { ...POOL_LIMITS, ...options.limits };
    this.#epoch = options.epoch;
    this.#random = options.random;
    this.#relearnUntilMs = options.startedAtMs + this.#limits.relearnMs;
    this.#replicas = new ReplicaSet(this.#limits.replicasMax);
    this.#leases = new LeaseBook(this.#limits.leasesMax);
  }

  /**
   * Follows the configuration. A replica that left it gets nothing new, and what runs there
   * finishes. A shorter queue turns nobody away who waits already.
   */
  configure(pool: LivePool, nowMs: number): PoolEffect[] {
    this.#queueMax = Math.min(pool.queueMax, this.#limits.queueMax);
    this.#replicas.configure(pool.replicas);
    return this.#serve(nowMs, "all");
  }

  /** Returns which replica in use has this URL. */
  replicaAt(endpointUrl: string): ReplicaId | undefined {
    return this.#replicas.at(endpointUrl)?.replicaId;
  }

  /** A replica, one that `replicaAt` knows, has dialled in. A new process first has to report. */
  connected(hello: ReplicaHello, nowMs: number): PoolEffect[] {
    const replica = this.#replicas.at(hello.endpointUrl);
    assert(replica !== undefined, "only a replica of the configuration connects");
    const { restarted } = replica.connect(hello);
    // The process that held these slots is gone, and the requests there with it.
    if (restarted) this.#leases.removeOf(replica.replicaId);
    return this.#serve(nowMs, "due");
  }

  /** A replica has reported. A report that is not newer than the last changes nothing. */
  report(replicaId: ReplicaId, report: ReplicaReport, nowMs: number): PoolEffect[] {
    const isNews = this.#replicas.get(replicaId)?.report(report, { epoch: this.#epoch, nowMs });
    if (isNews !== true) return [];
    return this.#serve(nowMs, report.draining ? "all" : "due");
  }

  /** A replica's connection is gone. Requests there live on: they have streams of their own. */
  disconnected(replicaId: ReplicaId, nowMs: number): PoolEffect[] {
    this.#replicas.get(replicaId)?.disconnect();
    return this.#serve(nowMs, "all");
  }

  /**
   * A request asks for a replica. It may ask again after a failure, but not while it still waits;
   * an earlier lease of it may be alive, since its settlement can arrive late.
   */
  offer(offer: Offer, nowMs: number): PoolEffect[] {
    assert(!this.#queue.has(offer.requestId), "a request that waits is not offered again");
    const effects = this.#serve(nowMs, "due");
    this.#offered += 1;
    const request: Waiter = {
      offer,
      promptTokens: this.#tokenEstimate.tokensOf(offer.promptBytes),
      promptTokensMin: this.#tokenEstimate.tokensAtLeast(offer.promptBytes),
      offeredAtMs: nowMs,
      firstTokenDeadlineAtMs: nowMs + offer.firstTokenBudgetMs,
      recheckAtMs: nowMs,
    };
    const verdict = this.#judge(request, nowMs);
    if (verdict.kind === "admit") {
      effects.push(this.#dispatch(request, verdict.replica, nowMs));
    } else if (verdict.kind === "reject") {
      effects.push(this.#reject(request, verdict.reason, verdict.predictedWaitMs, nowMs));
    } else if (this.#queue.size >= this.#queueMax) {
      effects.push(this.#reject(request, "queue-full", verdict.predictedWaitMs, nowMs));
    } else {
      this.#queue.add({ ...request, recheckAtMs: verdict.recheckAtMs });
    }
    return [...effects, ...this.#nextWake()];
  }

  /** A request gives up. Does nothing unless it waits here: a dispatched one is settled instead. */
  withdraw(requestId: RequestId, nowMs: number): PoolEffect[] {
    const waiter = this.#queue.remove(requestId);
    if (waiter === undefined) return [];
    return [this.#reject(waiter, "withdrawn", undefined, nowMs), ...this.#nextWake()];
  }

  /** A dispatched request has ended. Settling a lease that is not alive does nothing. */
  settle(leaseId: LeaseId, outcome: Outcome, nowMs: number): PoolEffect[] {
    const lease = this.#leases.remove(leaseId);
    if (lease === undefined) return [];
    const { promptBytes } = lease;
    const { promptTokens } = outcome;
    if (promptTokens !== undefined) this.#tokenEstimate.learn({ promptBytes, promptTokens }, nowMs);
    if (outcome.kind === "completed") {
      // What came before the first token was mostly waiting for a sequence, not holding one.
      const holdMs = nowMs - lease.dispatchedAtMs - (outcome.firstTokenAfterMs ?? 0);
      this.#replicas.get(lease.replicaId)?.learnHold(Math.max(0, holdMs), nowMs);
    }
    this.#replicas.release(lease);
    return this.#serve(nowMs, "due");
  }

  /** The instant of a `wake` effect has come, or about so. */
  wake(nowMs: number): PoolEffect[] {
    this.#wakeAtMs = undefined;
    return this.#serve(nowMs, "due");
  }

  /** Describes the pool for people and dashboards. */
  status(nowMs: number): PoolStatus {
    return {
      queued: this.#queue.size,
      queueMax: this.#queueMax,
      leases: this.#leases.size,
      offered: this.#offered,
      dispatched: this.#dispatched,
      rejected: this.#rejected,
      replicas: [...this.#replicas].map((replica) => toReplicaStatus(replica, nowMs)),
    };
  }

  /** Throws when a law of conservation is broken: of requests, of slots, of bounds. */
  checkInvariants(): void {
    const ended = this.#dispatched + this.#rejected;
    assert(this.#offered === ended + this.#queue.size, "every offer has one verdict or waits");
    assert(this.#queue.size <= this.#limits.queueMax, "the queue is within its bound");
    this.#queue.checkInvariants();
    this.#leases.checkInvariants();
    this.#replicas.checkInvariants();
    const leasesOn = new Map<ReplicaId, number>();
    for (const { replicaId } of this.#leases) {
      leasesOn.set(replicaId, (leasesOn.get(replicaId) ?? 0) + 1);
    }
    for (const { replicaId, outstanding } of this.#replicas) {
      assert(outstanding === (leasesOn.get(replicaId) ?? 0), "slots taken are leases alive");
      leasesOn.delete(replicaId);
    }
    assert(leasesOn.size === 0, "every lease is on a replica that is known");
  }

  /** Ends leases whose instant has come, then gives waiting requests the verdicts that are due. */
  #serve(nowMs: number, rejudge: "all" | "due"): PoolEffect[] {
    for (const lease of this.#leases.removeExpired(nowMs)) this.#replicas.release(lease);
    const effects: PoolEffect[] = [];
    const canServe = this.#queue.size > 0 && !this.#leases.isFull;
    const open = canServe ? this.#replicas.openAt(nowMs) : [];
    for (const waiter of this.#queue.inOrder()) {
      const isDue = rejudge === "all" || waiter.recheckAtMs <= nowMs;
      // A verdict that turned for the worse is noticed when it is due; to turn for the better it
      // takes one of these.
      const request = toPickRequest(waiter, nowMs);
      if (!isDue && !open.some((replica) => couldTake(replica, request))) continue;
      const verdict = this.#judge(waiter, nowMs);
      if (verdict.kind === "wait") {
        waiter.recheckAtMs = verdict.recheckAtMs;
        continue;
      }
      this.#queue.remove(waiter.offer.requestId);
      if (verdict.kind === "admit") {
        effects.push(this.#dispatch(waiter, verdict.replica, nowMs));
      } else {
        const reason = verdict.reason === "infeasible" ? "deadline-passed" : verdict.reason;
        effects.push(this.#reject(waiter, reason, verdict.predictedWaitMs, nowMs));
      }
    }
    return [...effects, ...this.#nextWake()];
  }

  #judge(request: Waiter, nowMs: number): Verdict {
    return judge(request, {
      replicas: this.#replicas,
      nowMs,
      random: this.#random,
      canAdmit: !this.#leases.isFull,
      relearnUntilMs: this.#relearnUntilMs,
    });
  }

  #dispatch(request: Waiter, replica: Replica, nowMs: number): PoolEffect {
    const { offer } = request;
    this.#dispatched += 1;
    const dispatchNumber = this.#dispatched;
    const dispatchName = `${this.#epoch}.${dispatchNumber}`;
    replica.take({ dispatchNumber, promptTokens: request.promptTokens });
    const leaseId = LeaseId.parse(dispatchName);
    this.#leases.add({
      leaseId,
      requestId: offer.requestId,
      replicaId: replica.replicaId,
      dispatchNumber,
      promptBytes: offer.promptBytes,
      dispatchedAtMs: nowMs,
      expiresAtMs: nowMs + this.#limits.leaseMs,
    });
    const dispatch = {
      replicaId: replica.replicaId,
      endpointUrl: replica.endpointUrl,
      dispatch: dispatchName,
      queuedMs: nowMs - request.offeredAtMs,
      firstTokenBudgetMs: request.firstTokenDeadlineAtMs - nowMs,
    };
    return { kind: "dispatch", requestId: offer.requestId, leaseId, dispatch };
  }

  #reject(
    request: Waiter,
    reason: Rejection["reason"],
    predictedWaitMs: number | undefined,
    nowMs: number,
  ): PoolEffect {
    this.#rejected += 1;
    const { offer, promptTokensMin: promptTokens } = request;
    const lateByMs = (predictedWaitMs ?? 0) - (request.firstTokenDeadlineAtMs - nowMs);
    const soonestMs = Math.ceil(Math.max(lateByMs, this.#queueDrainMs(nowMs)));
    const retryAfterMs = Math.max(soonestMs, RETRY_AFTER_MS_MIN);
    const said = { reason, predictedWaitMs, promptTokens };
    const rejection: Rejection =
      reason === "unattainable"
        ? { ...said, code: "slo_unattainable", retryAfterMs: undefined }
        : { ...said, code: "server_is_overloaded", retryAfterMs };
    return { kind: "reject", requestId: offer.requestId, rejection };
  }

  /** How long those who wait now will take to find slots. */
  #queueDrainMs(nowMs: number): number {
    const releasesPerMs = this.#replicas.releasesPerMs(nowMs);
    return releasesPerMs === 0 ? 0 : this.#queue.size / releasesPerMs;
  }

  /** Asks to be woken when a verdict or a lease comes due, as long as anybody waits for it. */
  #nextWake(): PoolEffect[] {
    const recheckAtMs = this.#queue.nextRecheckAtMs;
    const atMs =
      recheckAtMs === undefined
        ? undefined
        : Math.min(recheckAtMs, this.#leases.nextExpiryAtMs ?? Infinity);
    if (atMs === this.#wakeAtMs) return [];
    this.#wakeAtMs = atMs;
    return atMs === undefined ? [] : [{ kind: "wake", atMs }];
  }
}
