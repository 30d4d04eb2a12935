import { assert } from "../base/assert.ts";
import type { MetricFamily } from "../base/metric-text.ts";
import type { ReplicaHello, ReplicaReport } from "../protocol/engine-api.ts";
import type { EngineSignals } from "../protocol/engine-signals.ts";
import type { SaidLimit } from "../protocol/said-limit.ts";
import type { LeaseId, PoolId, ReplicaId, RequestId } from "../protocol/ids.ts";
import type { Replica } from "../replicas/replica.ts";
import type { LivePool } from "../tenants/live-configuration.ts";
import { Dispatcher } from "./dispatcher.ts";
import { Hedger } from "./hedger.ts";
import type { Lease } from "./lease-book.ts";
import { heedLimit, noteFirstToken } from "./heed-limit.ts";
import type { Mechanisms } from "./mechanisms.ts";
import { ALL_MECHANISMS } from "./mechanisms.ts";
import type { Offer, Outcome, PrefillOutcome, Prospects } from "./offer.ts";
import { checkRequests, checkSlots } from "./pool-laws.ts";
import type { PoolEffect } from "./pool-effect.ts";
import type { PoolLimits } from "./pool-limits.ts";
import { POOL_LIMITS } from "./pool-limits.ts";
import { poolMetrics } from "./pool-metrics.ts";
import { PoolParts } from "./pool-parts.ts";
import type { PoolState } from "./pool-state.ts";
import { newPoolState } from "./pool-state.ts";
import type { PoolStatus } from "./pool-status.ts";
import { toPoolStatus } from "./pool-status.ts";
import { prospectsOf } from "./prospects.ts";
import { Reception } from "./reception.ts";

/** The life that a pool begins, or goes on with. */
export interface PoolOptions {
  /** Names this life; replicas echo it, so that the numbers of another life mean nothing. */
  readonly epoch: string;
  readonly startedAtMs: number;
  /** Of its dice. */
  readonly seed: number;
  readonly limits?: Partial<PoolLimits>;
  readonly mechanisms?: Partial<Mechanisms>;
  /** A snapshot to go on from; the pool takes it over. */
  readonly state?: PoolState;
}

/**
 * The one dispatcher of a cell's replicas: which request goes where, which waits, which is refused.
 *
 * A request goes where everybody's targets hold with it, by bounds at the level that was promised. It
 * waits while it could still be in time, and is refused the moment it could not: serving it late would
 * spend work that others need in time. What is guaranteed to a tenant comes first; the rest is shared
 * by cost and weight.
 *
 * Events come in as calls, what to do goes out as effects, and every offer gets exactly one verdict.
 * All that it remembers is `state`. After a restart without it a pool relearns from its replicas'
 * reports, in which requests of its previous life still count.
 */
export class Pool {
  readonly state: PoolState;
  readonly #parts: PoolParts;
  readonly #reception: Reception;
  readonly #hedger: Hedger;
  readonly #epoch: string;
  readonly #startedAtMs: number;

  constructor(options: PoolOptions) {
    const limits = { ...POOL_LIMITS, ...options.limits };
    const mechanisms = { ...ALL_MECHANISMS, ...options.mechanisms };
    this.state =
      options.state ?? newPoolState(options.seed, options.startedAtMs + limits.relearnMs);
    this.#epoch = options.epoch;
    this.#startedAtMs = options.startedAtMs;
    this.#parts = new PoolParts(this.state, limits, mechanisms);
    const dispatcher = new Dispatcher(this.#parts, this.state, this.#epoch);
    this.#reception = new Reception(this.#parts, this.state, dispatcher);
    this.#hedger = new Hedger(this.#parts, dispatcher);
  }

  /** Follows the configuration. What runs on a replica that left it finishes, and a shorter queue turns nobody away. */
  configure(pool: LivePool, nowMs: number): PoolEffect[] {
    this.state.queueMax = Math.min(pool.queueMax, this.#parts.limits.queueMax);
    this.#parts.configure(pool);
    return this.#attend(nowMs);
  }

  /**
   * Takes nothing in any more, or does again: before a stop, or for maintenance. Who waits is refused at
   * once, since nobody would serve them in time; what runs goes on to its end, or breaks.
   */
  close(isClosed: boolean, nowMs: number): PoolEffect[] {
    this.state.isClosed = isClosed;
    const turnedAway = isClosed ? this.#reception.turnAllAway(nowMs) : [];
    return [...turnedAway, ...this.#attend(nowMs)];
  }

  /** Sends nothing new to a replica, or does again. What runs there goes on to its end. */
  drain(replicaId: ReplicaId, isDrained: boolean, nowMs: number): PoolEffect[] {
    const replica = this.#parts.replicas.get(replicaId);
    if (replica === undefined) return [];
    if (isDrained) replica.state.isDrained = true;
    else delete replica.state.isDrained;
    return this.#attend(nowMs, replica);
  }

  /** Returns which replica in use has this URL. */
  replicaAt(endpointUrl: string): ReplicaId | undefined {
    return this.#parts.replicas.at(endpointUrl)?.replicaId;
  }

  /**
   * How a request that its replica does not answer fares there, and whether another could take it;
   * `undefined` once its lease has ended.
   */
  prospectsOf(
    leaseId: LeaseId,
    triedReplicaIds: readonly ReplicaId[],
    nowMs: number,
  ): Prospects | undefined {
    const lease = this.#parts.leases.get(leaseId);
    return lease && prospectsOf(lease, triedReplicaIds, this.#parts.replicas, nowMs);
  }

  /** A replica, one that `replicaAt` knows, has dialled in. A new process first has to report. */
  connected(hello: ReplicaHello, nowMs: number): PoolEffect[] {
    const replica = this.#parts.replicas.at(hello.endpointUrl);
    assert(replica !== undefined, "only a replica of the configuration connects");
    const { restarted } = replica.connect(hello, nowMs);
    // The process that held these slots is gone, and the requests there with it.
    if (restarted) this.#parts.leases.loseAllOf(replica.replicaId);
    return this.#attend(nowMs);
  }

  /** A replica has reported. A report that is not newer than the last changes nothing. */
  report(replicaId: ReplicaId, report: ReplicaReport, nowMs: number): PoolEffect[] {
    const replica = this.#parts.replicas.get(replicaId);
    if (replica?.report(report, { epoch: this.#epoch, nowMs }) !== true) return [];
    const isWhole = replica.toldPrefixes(report, nowMs);
    const effects = this.#attend(nowMs, replica);
    return isWhole ? effects : [{ kind: "ask-prefixes", replicaId }, ...effects];
  }

  /** A server that is not ours has been asked how it is, and has said so; nothing, if it did not answer. */
  told(replicaId: ReplicaId, said: EngineSignals, nowMs: number): PoolEffect[] {
    const replica = this.#parts.replicas.get(replicaId);
    if (replica === undefined) return [];
    replica.told(said, nowMs);
    return this.#attend(nowMs, replica);
  }

  /** A replica's connection is gone. Requests there live on: they have streams of their own. */
  disconnected(replicaId: ReplicaId, nowMs: number): PoolEffect[] {
    this.#parts.replicas.get(replicaId)?.disconnect();
    return this.#attend(nowMs);
  }

  /** A request asks for a replica, perhaps again, but not while it waits; its earlier lease may still be alive. */
  offer(offer: Offer, nowMs: number): PoolEffect[] {
    assert(!this.#parts.queue.has(offer.requestId), "a request that waits is not offered again");
    const effects = this.#expire(nowMs);
    effects.push(...this.#reception.receive(offer, nowMs));
    return [...effects, ...this.#nextWake(nowMs)];
  }

  /** A request gives up. Does nothing unless it waits here: a dispatched one is settled instead. */
  withdraw(requestId: RequestId, nowMs: number): PoolEffect[] {
    return [...this.#reception.withdraw(requestId, nowMs), ...this.#nextWake(nowMs)];
  }

  /** A dispatched request has its first token. Only the first call counts. */
  started(leaseId: LeaseId, firstTokenAfterMs: number, nowMs: number): PoolEffect[] {
    const lease = this.#parts.leases.get(leaseId);
    if (lease === undefined || lease.startedAtMs !== undefined) return [];
    lease.startedAtMs = nowMs;
    this.#parts.displacement.left(leaseId);
    this.#parts.teacher.started(lease, firstTokenAfterMs, nowMs);
    const replica = this.#parts.replicas.get(lease.replicaId);
    if (lease.isLost || replica === undefined) return [];
    replica.started(lease.dispatchNumber, nowMs);
    noteFirstToken(lease, replica, firstTokenAfterMs);
    return this.#attend(nowMs, replica);
  }

  /** It has turned out how a prompt that is computed elsewhere fares there; only the first word counts. */
  prefilled(leaseId: LeaseId, outcome: PrefillOutcome, nowMs: number): PoolEffect[] {
    const lease = this.#parts.leases.get(leaseId);
    if (lease?.prefill === undefined) return [];
    this.#parts.prefills.end(lease, outcome, nowMs);
    return this.#attend(nowMs);
  }

  /**
   * A dispatched request is late: it may be sent to a second replica as well. `offer` tells how it stands
   * now, and which replicas it has been to before its lease.
   */
  hedge(leaseId: LeaseId, offer: Offer, nowMs: number): PoolEffect[] {
    const effects = this.#expire(nowMs);
    const lease = this.#parts.leases.get(leaseId);
    if (lease !== undefined) effects.push(...this.#hedger.hedge(lease, offer, nowMs));
    return [...effects, ...this.#nextWake(nowMs)];
  }

  /** A dispatched request's stream has paused for much too long. Several of them may eject its replica. */
  stalled(leaseId: LeaseId, nowMs: number): PoolEffect[] {
    const lease = this.#parts.leases.get(leaseId);
    if (lease === undefined || lease.isLost || !this.#parts.mechanisms.ejection) return [];
    this.#parts.replicas.stalled(lease, nowMs);
    return this.#attend(nowMs, this.#parts.replicas.get(lease.replicaId));
  }

  /** A server that is not ours has said at a request how much more it takes, or that it takes no more. */
  limited(leaseId: LeaseId, said: SaidLimit, nowMs: number): PoolEffect[] {
    const lease = this.#parts.leases.get(leaseId);
    if (lease?.isLost === false) heedLimit(lease, said, this.#parts.replicas, nowMs);
    return this.#attend(nowMs);
  }

  /** A dispatched request has ended. Settling a lease that is not alive does nothing. */
  settle(leaseId: LeaseId, outcome: Outcome, nowMs: number): PoolEffect[] {
    const lease = this.#parts.leases.remove(leaseId);
    if (lease === undefined) return [];
    this.#parts.teacher.ended(lease, outcome, nowMs);
    this.#release(lease);
    return this.#attend(nowMs, this.#parts.replicas.get(lease.replicaId));
  }

  /** The instant of a `wake` effect has come, or about so. */
  wake(nowMs: number): PoolEffect[] {
    delete this.state.wakeAtMs;
    return this.#attend(nowMs);
  }

  /** Describes the pool for people and dashboards. */
  status(nowMs: number): PoolStatus {
    return toPoolStatus(this.state, this.#parts, nowMs);
  }

  /** Tells the pool in numbers, for Prometheus; counters count since this life began. */
  metrics(poolId: PoolId, nowMs: number): MetricFamily[] {
    const moment = { poolId, startedAtMs: this.#startedAtMs, nowMs };
    return poolMetrics(this.state, this.#parts, moment);
  }

  /** Throws when a law of conservation is broken: of requests, of slots, of bounds. */
  checkInvariants(): void {
    checkRequests(this.state, this.#parts);
    this.#parts.checkInvariants();
    checkSlots(this.#parts);
  }

  /** Ends what is over, then lets those who wait have what has become free. */
  #attend(nowMs: number, changed?: Replica): PoolEffect[] {
    const effects = this.#expire(nowMs);
    effects.push(...this.#reception.serve(nowMs, changed));
    return [...effects, ...this.#nextWake(nowMs)];
  }

  #expire(nowMs: number): PoolEffect[] {
    for (const lease of this.#parts.leases.removeExpired(nowMs)) {
      // Nobody ever said what it cost.
      const { account, chargedMs, isCharged } = lease;
      if (isCharged) this.#parts.queue.settle(account, { chargedMs, actualMs: chargedMs });
      this.#release(lease);
    }
    this.#parts.watchPromises(nowMs);
    this.#parts.runningCosts.revise(nowMs);
    return this.#reception.dropDue(nowMs);
  }

  #release(lease: Lease): void {
    this.#parts.displacement.left(lease.leaseId);
    this.#parts.tenants.leaves(lease.tenantId);
    this.#parts.prefills.release(lease.prefill);
    if (!lease.isLost) this.#parts.replicas.release(lease);
  }

  /** Asks to be woken when a verdict, a probe or a lease comes due, as long as anybody waits for it. */
  #nextWake(nowMs: number): PoolEffect[] {
    const { leases, queue, replicas } = this.#parts;
    const dropAtMs = this.#reception.nextDueAtMs(nowMs);
    // Whoever waits may be the one to try a replica again, and nothing else might happen then.
    const probeAtMs = queue.size > 0 ? replicas.nextProbeAtMs(nowMs) : undefined;
    const dueAtMs = dropAtMs === undefined ? probeAtMs : Math.min(dropAtMs, probeAtMs ?? Infinity);
    const atMs =
      dueAtMs === undefined ? undefined : Math.min(dueAtMs, leases.nextExpiryAtMs ?? Infinity);
    if (atMs === this.state.wakeAtMs) return [];
    if (atMs === undefined) {
      delete this.state.wakeAtMs;
      return [];
    }
    this.state.wakeAtMs = atMs;
    return [{ kind: "wake", atMs }];
  }
}
