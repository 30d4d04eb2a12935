import { DurableObject } from "cloudflare:workers";
import { assert } from "../src/base/assert.ts";
import type { MetricFamily } from "../src/base/metric-text.ts";
import type { Offer, Rejection } from "../src/pool/offer.ts";
import { encodeDecisions } from "../src/pool/decision-lines.ts";
import { DecisionLog } from "../src/pool/decision-log.ts";
import type { PoolCall } from "../src/pool/pool-call.ts";
import type { PoolEffect } from "../src/pool/pool-effect.ts";
import type { PoolStatus } from "../src/pool/pool-status.ts";
import type { Pool } from "../src/pool/pool.ts";
import { REPLICA_CLOSE_CODES } from "../src/protocol/engine-api.ts";
import type { LeaseId, PoolId, ReplicaId, RequestId } from "../src/protocol/ids.ts";
import { EnginePolls } from "./engine-polls.ts";
import type { Env } from "./env.ts";
import { poolFaultOf } from "./foreign-headers.ts";
import { OperatorWord } from "./operator-word.ts";
import { PoolConfiguration } from "./pool-configuration.ts";
import type { Acquired, Hedged } from "./pool-lease.ts";
import { PoolLease } from "./pool-lease.ts";
import { PoolMemory } from "./pool-memory.ts";
import { CLOSED_STATUS, poolOfUrl } from "./pool-of-url.ts";
import { readReplicaFrame } from "./replica-frame.ts";
import { ReplicaLinks } from "./replica-links.ts";
import { settingsOf } from "./settings.ts";
import { SocketTurns } from "./socket-turns.ts";
import { toByteStream } from "./text-stream.ts";
import { WakeTimer } from "./wake-timer.ts";

/** A replica that is not in our copy of the configuration may be in one this much newer. */
const UNKNOWN_REPLICA_CONFIGURATION_AGE_MS_MAX = 1_000;
const UNCONFIGURED: Rejection = {
  code: "server_is_overloaded",
  reason: "no-replica",
  retryAfterMs: 1_000,
  predictedWaitMs: undefined,
  promptTokens: undefined,
};
/** A log is mostly far below a megabyte; thousands of busy tenants make it larger. */
const DECISIONS_CHARACTERS_MAX = 33_554_432;

/**
 * Body of `Pool`, one object a pool, found by pool id: the only dispatcher of its replicas.
 *
 * Callers ask by RPC, replicas dial in by WebSocket; tokens never pass through here. Every call of
 * the pool is kept for a while, so that it can explain itself. An operator's word that closes it is stored
 * at once, and what it has learned when it is idle; who waits and who runs is in memory, and a new life
 * relearns that from the connections, which outlive the object, and from the next reports.
 */
export class PoolObject extends DurableObject<Env> {
  readonly #epoch = crypto.randomUUID();
  readonly #pool: Pool;
  readonly #memory: PoolMemory;
  readonly #word: OperatorWord;
  readonly #decisions: DecisionLog;
  readonly #links: ReplicaLinks;
  readonly #polls: EnginePolls;
  /** Who waits for the verdict on a request; its size is that of the pool's queue. */
  readonly #callers = new Map<RequestId, (acquired: Acquired) => void>();
  /** How the holder of each lease learns that its slot is taken back. */
  readonly #displacing = new Map<LeaseId, (isDisplaced: boolean) => void>();
  readonly #turns = new SocketTurns();
  #configuration: PoolConfiguration | undefined;
  readonly #alarm = new WakeTimer(() => this.#call({ kind: "wake" }));

  constructor(state: DurableObjectState, env: Env) {
    super(state, env);
    const [seed = 0] = crypto.getRandomValues(new Uint32Array(1));
    this.#memory = new PoolMemory(state.storage);
    this.#word = new OperatorWord(state.storage);
    this.#pool = this.#memory.begin({ epoch: this.#epoch, startedAtMs: Date.now(), seed });
    this.#decisions = new DecisionLog(this.#pool);
    this.#links = new ReplicaLinks(state, this.#pool, (call, nowMs) =>
      this.#decisions.call(call, nowMs),
    );
    this.#polls = new EnginePolls({
      isBusy: () => this.#isBusy,
      replicas: this.#pool.state.replicas,
      settings: () => settingsOf(env),
      tell: (replicaId, said) => this.#call({ kind: "told", replicaId, said }),
    });
    if (this.#word.isClosed) this.#call({ kind: "close", isClosed: true });
  }

  /**
   * Asks for a replica and waits for the verdict, at the longest until the first-token budget is
   * spent. The lease is the caller's: settle it, or let it be disposed of.
   */
  async acquire(poolId: PoolId, offer: Offer): Promise<Acquired> {
    const askedAtMs = Date.now();
    try {
      await this.#configurationOf(poolId).ensure();
    } catch {
      return { kind: "rejected", rejection: UNCONFIGURED };
    }
    if (this.#callers.has(offer.requestId)) {
      throw new Error("A request that waits in the pool was offered again");
    }
    // The time counts from the call: what reading the configuration took is spent.
    const elapsedMs = offer.elapsedMs + (Date.now() - askedAtMs);
    return new Promise((resolve) => {
      this.#callers.set(offer.requestId, resolve);
      this.#call({ kind: "offer", offer: { ...offer, elapsedMs } });
      this.#polls.wake();
    });
  }

  /** Takes back the offer of a request that still waits; `acquire` then answers `withdrawn`. */
  async withdraw(requestId: RequestId): Promise<void> {
    this.#call({ kind: "withdraw", requestId });
  }

  /**
   * Takes nothing in any more, or does again, in later lives as well. Who waits is refused; what runs goes on, and
   * with its end the replicas' connections end, since a process that stops would wait for them.
   */
  async close(poolId: PoolId, isClosed: boolean): Promise<void> {
    await this.#configurationOf(poolId).ensure();
    this.#word.isClosed = isClosed;
    this.#call({ kind: "close", isClosed });
  }

  /** Sends nothing new to a replica, or does again, in later lives as well; false for one it does not have. */
  async drain(poolId: PoolId, replicaId: ReplicaId, isDrained: boolean): Promise<boolean> {
    const configuration = this.#configurationOf(poolId);
    await configuration.ensure();
    await configuration.refresh(UNKNOWN_REPLICA_CONFIGURATION_AGE_MS_MAX);
    if (this.#pool.state.replicas.get(replicaId)?.isRemoved !== false) return false;
    this.#word.drain(replicaId, isDrained);
    this.#call({ kind: "drain", replicaId, isDrained });
    return true;
  }

  /** Describes the pool as it is now, and what is wrong with its secrets and the way to its servers, if anything is. */
  async status(poolId: PoolId): Promise<PoolStatus & { readonly secretFault?: string }> {
    const configuration = this.#configurationOf(poolId);
    await configuration.ensure();
    const secretFault = poolFaultOf(configuration.live, settingsOf(this.env));
    return { ...this.#pool.status(Date.now()), ...(secretFault !== undefined && { secretFault }) };
  }

  /** Tells the pool in numbers, as `encodeMetrics` writes them. */
  async metrics(poolId: PoolId): Promise<MetricFamily[]> {
    await this.#configurationOf(poolId).ensure();
    return this.#pool.metrics(poolId, Date.now());
  }

  /**
   * Tells how the pool's late decisions came about, as `decodeDecisions` reads it. Each record in it can
   * be replayed; names in it are those of tenants, requests and replicas, never what a prompt says.
   */
  async decisions(poolId: PoolId): Promise<ReadableStream<Uint8Array>> {
    await this.#configurationOf(poolId).ensure();
    const log = { epoch: this.#epoch, records: this.#decisions.records() };
    return toByteStream(encodeDecisions(log, DECISIONS_CHARACTERS_MAX));
  }

  /** Opens a replica's connection: `GET …/internal/pools/{poolId}`, authenticated by the edge. */
  override async fetch(request: Request): Promise<Response> {
    if (request.headers.get("upgrade")?.toLowerCase() !== "websocket") {
      return new Response(null, { status: 426, headers: { upgrade: "websocket" } });
    }
    const poolId = poolOfUrl(request.url);
    if (poolId === undefined) return new Response(null, { status: 404 });
    if (this.#word.isClosed && !this.#isBusy) return new Response(null, { status: CLOSED_STATUS });
    const webSocket = this.#links.open(poolId, Date.now());
    return webSocket === undefined
      ? new Response(null, { status: 503 })
      : new Response(null, { status: 101, webSocket });
  }

  override async webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
    await this.#turns.take(socket, () => this.#hear(socket, message));
  }

  override async webSocketClose(socket: WebSocket): Promise<void> {
    // Unless its close is answered the runtime keeps the connection, and its process waits for it when it stops.
    socket.close();
    await this.#turns.take(socket, async () => this.#perform(this.#links.lost(socket, Date.now())));
  }

  override async webSocketError(socket: WebSocket): Promise<void> {
    await this.#turns.take(socket, async () => this.#perform(this.#links.lost(socket, Date.now())));
  }

  async #hear(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
    const read = readReplicaFrame(message);
    if (read.kind === "unreadable") {
      this.#perform(this.#links.end(socket, read.code, read.reason, Date.now()));
      return;
    }
    const { frame } = read;
    try {
      const configuration =
        this.#configuration ?? this.#configurationOf(this.#links.poolIdOf(socket));
      await configuration.ensure();
      if (frame.kind === "hello" && this.#pool.replicaAt(frame.endpointUrl) === undefined) {
        await configuration.refresh(UNKNOWN_REPLICA_CONFIGURATION_AGE_MS_MAX);
      }
    } catch {
      const code = REPLICA_CLOSE_CODES.tryAgainLater;
      this.#perform(this.#links.end(socket, code, "No configuration can be read", Date.now()));
      return;
    }
    this.#perform(this.#links.hear(socket, frame, Date.now()));
  }

  #configurationOf(poolId: PoolId): PoolConfiguration {
    this.#configuration ??= new PoolConfiguration({
      poolId,
      env: this.env,
      onChange: (pool) => {
        this.#call({ kind: "configure", pool });
        this.#word.keepOnly(new Set(pool.replicas.map(({ replicaId }) => replicaId)));
        for (const replicaId of this.#word.drained)
          this.#call({ kind: "drain", replicaId, isDrained: true });
        this.#polls.follow(pool);
        this.#perform(this.#links.follow(Date.now()));
      },
    });
    assert(this.#configuration.poolId === poolId, "one object is one pool");
    return this.#configuration;
  }

  #call(call: PoolCall): void {
    if (call.kind === "settle" || call.kind === "offer") this.#memory.learned(this.#pool);
    this.#perform(this.#decisions.call(call, Date.now()));
    if (this.#word.isClosed && !this.#isBusy) this.#perform(this.#links.endAll(Date.now()));
  }

  /** Somebody waits here or runs on one of its replicas. */
  get #isBusy(): boolean {
    return this.#callers.size + this.#displacing.size > 0;
  }

  #perform(effects: readonly PoolEffect[]): void {
    for (const effect of effects) {
      switch (effect.kind) {
        case "dispatch":
          this.#answer(effect.requestId, {
            kind: "dispatched",
            dispatch: effect.dispatch,
            lease: this.#leaseOf(effect.leaseId),
          });
          break;
        case "reject":
          this.#answer(effect.requestId, { kind: "rejected", rejection: effect.rejection });
          break;
        case "displace":
          this.#endDisplacing(effect.leaseId, true);
          break;
        case "hedge":
          // Whoever asked for it is answered at once.
          break;
        case "ask-prefixes":
          this.#links.askPrefixes(effect.replicaId);
          break;
        case "wake":
          this.#alarm.set(effect.atMs);
          break;
      }
    }
  }

  #leaseOf(leaseId: LeaseId): PoolLease {
    const displaced = new Promise<boolean>((resolve) => this.#displacing.set(leaseId, resolve));
    return new PoolLease({
      displaced,
      prefilled: (outcome) => this.#call({ kind: "prefilled", leaseId, outcome }),
      started: (firstTokenAfterMs) => this.#call({ kind: "started", leaseId, firstTokenAfterMs }),
      hedge: (offer) => this.#hedge(leaseId, offer),
      stalled: () => this.#call({ kind: "stalled", leaseId }),
      limited: (said) => this.#call({ kind: "limited", leaseId, said }),
      prospects: (triedIds) => this.#pool.prospectsOf(leaseId, triedIds, Date.now()),
      settled: (outcome) => {
        this.#endDisplacing(leaseId, false);
        this.#call({ kind: "settle", leaseId, outcome });
      },
    });
  }

  #hedge(leaseId: LeaseId, offer: Offer): Hedged | undefined {
    const effects = this.#decisions.call({ kind: "hedge", leaseId, offer }, Date.now());
    this.#perform(effects);
    const sent = effects.find((effect) => effect.kind === "hedge");
    if (sent === undefined) return undefined;
    return { dispatch: sent.dispatch, lease: this.#leaseOf(sent.leaseId) };
  }

  #endDisplacing(leaseId: LeaseId, isDisplaced: boolean): void {
    this.#displacing.get(leaseId)?.(isDisplaced);
    this.#displacing.delete(leaseId);
  }

  #answer(requestId: RequestId, acquired: Acquired): void {
    const resolve = this.#callers.get(requestId);
    assert(resolve !== undefined, "every verdict has a caller who waits for it");
    this.#callers.delete(requestId);
    resolve(acquired);
  }
}
