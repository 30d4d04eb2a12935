import { assert } from "../src/base/assert.ts";
import { drawSeed } from "../src/base/random.ts";
import type { Mechanisms } from "../src/pool/mechanisms.ts";
import type { Offer, Outcome } from "../src/pool/offer.ts";
import type { PoolCall } from "../src/pool/pool-call.ts";
import { callPool } from "../src/pool/pool-call.ts";
import type { PoolEffect } from "../src/pool/pool-effect.ts";
import type { PoolLimits } from "../src/pool/pool-limits.ts";
import type { PoolStatus } from "../src/pool/pool-status.ts";
import { Pool } from "../src/pool/pool.ts";
import type { ReplicaHello, ReplicaReport } from "../src/protocol/engine-api.ts";
import type { EngineSignals } from "../src/protocol/engine-signals.ts";
import type { LeaseId, ReplicaId, RequestId } from "../src/protocol/ids.ts";
import type { LivePool } from "../src/tenants/live-configuration.ts";
import type { Dispatcher, VerdictListener } from "./dispatcher.ts";
import type { World } from "./world.ts";

export interface PoolDispatcherOptions {
  readonly pool: LivePool;
  readonly mechanisms?: Partial<Mechanisms>;
  readonly limits?: Partial<PoolLimits>;
}

/**
 * The pool's object in virtual time: the real pool, the one timer that it asks for, and its death.
 *
 * As in production the connections of replicas outlive the object, and whoever waited there does not
 * hear from it again.
 */
export class PoolDispatcher implements Dispatcher {
  readonly #options: PoolDispatcherOptions;
  readonly #world: World;
  readonly #listener: VerdictListener;
  readonly #hellos = new Map<ReplicaId, ReplicaHello>();
  readonly #waiting = new Set<RequestId>();
  #pool: Pool;
  #lives = 0;
  /** Where the clock of the pool's machine stands when it is right everywhere else. */
  #clockOffsetMs = 0;
  #timers = 0;
  #calls = 0;

  constructor(options: PoolDispatcherOptions, world: World, listener: VerdictListener) {
    this.#options = options;
    this.#world = world;
    this.#listener = listener;
    this.#pool = this.#begin();
  }

  /** The pool that lives at present. */
  get pool(): Pool {
    return this.#pool;
  }

  /** Calls of all its lives. */
  get calls(): number {
    return this.#calls;
  }

  get status(): PoolStatus {
    return this.#pool.status(this.#nowMs);
  }

  connected(hello: ReplicaHello): void {
    const replicaId = this.#pool.replicaAt(hello.endpointUrl);
    assert(replicaId !== undefined, "every simulated replica is configured");
    this.#hellos.set(replicaId, hello);
    this.#call({ kind: "connected", hello });
  }

  reported(replicaId: ReplicaId, report: ReplicaReport): void {
    this.#call({ kind: "report", replicaId, report });
  }

  disconnected(replicaId: ReplicaId): void {
    this.#hellos.delete(replicaId);
    this.#call({ kind: "disconnected", replicaId });
  }

  told(replicaId: ReplicaId, said: EngineSignals): void {
    this.#call({ kind: "told", replicaId, said });
  }

  offer(offer: Offer): void {
    this.#waiting.add(offer.requestId);
    this.#call({ kind: "offer", offer });
  }

  withdraw(requestId: RequestId): void {
    this.#call({ kind: "withdraw", requestId });
  }

  started(leaseId: LeaseId, firstTokenAfterMs: number): void {
    this.#call({ kind: "started", leaseId, firstTokenAfterMs });
  }

  late({ leaseId }: Parameters<Required<Dispatcher>["late"]>[0], offer: Offer): void {
    const { excludedReplicaIds } = offer;
    const prospects = this.#pool.prospectsOf(leaseId, excludedReplicaIds, this.#nowMs);
    if (prospects?.hasOther !== true) return;
    const effects = prospects.isSilent ? [] : this.#call({ kind: "hedge", leaseId, offer });
    if (effects.some(({ kind }) => kind === "hedge")) return;
    this.#listener.hopeless(offer.requestId, leaseId);
  }

  settle(leaseId: LeaseId, outcome: Outcome): void {
    this.#call({ kind: "settle", leaseId, outcome });
  }

  /** The object is gone with all that it knew, and another one begins on a machine with its own clock. */
  restart(clockOffsetMs: number): void {
    this.#clockOffsetMs = clockOffsetMs;
    this.#timers += 1;
    const forgotten = [...this.#waiting];
    this.#waiting.clear();
    for (const requestId of forgotten) this.#listener.forgotten(requestId);
    this.#pool = this.#begin();
    for (const hello of this.#hellos.values()) this.#call({ kind: "connected", hello });
  }

  checkInvariants(): void {
    this.#pool.checkInvariants();
    const { size } = this.#pool.state.waiting;
    assert(this.#waiting.size === size, "who waits for a verdict is in the queue");
  }

  get #nowMs(): number {
    return this.#world.nowMs + this.#clockOffsetMs;
  }

  #begin(): Pool {
    const { pool, mechanisms, limits } = this.#options;
    this.#lives += 1;
    this.#pool = new Pool({
      epoch: `life-${this.#lives}`,
      startedAtMs: this.#nowMs,
      seed: drawSeed(this.#world.randomFor(`life ${this.#lives} of the pool`)),
      ...(mechanisms !== undefined && { mechanisms }),
      ...(limits !== undefined && { limits }),
    });
    this.#call({ kind: "configure", pool });
    return this.#pool;
  }

  #call(call: PoolCall): readonly PoolEffect[] {
    this.#calls += 1;
    const effects = callPool(this.#pool, call, this.#nowMs);
    for (const effect of effects) this.#perform(effect);
    return effects;
  }

  #perform(effect: PoolEffect): void {
    switch (effect.kind) {
      case "dispatch":
        this.#answered(effect.requestId);
        this.#listener.dispatched(effect.requestId, effect.leaseId, effect.dispatch);
        break;
      case "reject":
        this.#answered(effect.requestId);
        this.#listener.rejected(effect.requestId, effect.rejection);
        break;
      case "hedge":
        this.#listener.hedged(effect.requestId, effect.leaseId, effect.dispatch);
        break;
      case "displace":
        this.#listener.displaced(effect.requestId, effect.leaseId);
        break;
      case "ask-prefixes":
        this.#listener.askPrefixes(effect.replicaId);
        break;
      case "wake":
        this.#wakeAt(effect.atMs);
        break;
    }
  }

  #answered(requestId: RequestId): void {
    assert(this.#waiting.delete(requestId), "an offer gets one verdict");
  }

  /** An object has one timer, of whole milliseconds: a new instant replaces the one before. */
  #wakeAt(atMs: number): void {
    assert(atMs > this.#nowMs, "a pool asks to be woken later, not again and again");
    this.#timers += 1;
    const timer = this.#timers;
    this.#world.after(Math.ceil(atMs - this.#nowMs), () => {
      if (timer === this.#timers) this.#call({ kind: "wake" });
    });
  }
}
