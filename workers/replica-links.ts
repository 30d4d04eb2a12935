import * as z from "zod";
import type { PoolCall } from "../src/pool/pool-call.ts";
import type { PoolEffect } from "../src/pool/pool-effect.ts";
import type { Pool } from "../src/pool/pool.ts";
import type { ReplicaCloseCode, ReplicaFrame } from "../src/protocol/engine-api.ts";
import { PREFIXES_WANTED, REPLICA_CLOSE_CODES, ReplicaHello } from "../src/protocol/engine-api.ts";
import type { ReplicaId } from "../src/protocol/ids.ts";
import { PoolId } from "../src/protocol/ids.ts";

/** Twice the replicas of a cell: each may dial in again before its old connection is gone. */
export const LINKS_MAX = 256;
/** A connection that has not said hello by then may be ended to make room. */
const HELLO_MS_MAX = 10_000;

/** What a connection carries through the object's eviction. */
const Attachment = z.strictObject({
  poolId: PoolId,
  openedAtMs: z.number(),
  /** Absent before the hello, and again once another connection of the replica took over. */
  hello: ReplicaHello.exactOptional(),
});
type Attachment = z.infer<typeof Attachment>;

/** Tells the pool what happened, and writes it down. */
type CallPool = (call: PoolCall, nowMs: number) => PoolEffect[];

/**
 * Which connection speaks for which replica. The runtime holds the sockets, also while the object
 * is evicted; each carries its hello with it, so that a new life of the pool knows at once who is
 * there.
 */
export class ReplicaLinks {
  readonly #state: DurableObjectState;
  readonly #pool: Pool;
  readonly #callPool: CallPool;
  readonly #replicaOf = new Map<WebSocket, ReplicaId>();
  readonly #socketOf = new Map<ReplicaId, WebSocket>();

  constructor(state: DurableObjectState, pool: Pool, callPool: CallPool) {
    this.#state = state;
    this.#pool = pool;
    this.#callPool = callPool;
  }

  /** Opens a connection and returns the replica's end of it; `undefined` when there is no room. */
  open(poolId: PoolId, nowMs: number): WebSocket | undefined {
    if (this.#state.getWebSockets().length >= LINKS_MAX && !this.#makeRoom(nowMs)) return undefined;
    const { 0: replicaEnd, 1: poolEnd } = new WebSocketPair();
    this.#state.acceptWebSocket(poolEnd);
    attach(poolEnd, { poolId, openedAtMs: nowMs });
    return replicaEnd;
  }

  /** Returns the pool that a connection was opened for. */
  poolIdOf(socket: WebSocket): PoolId {
    return attachmentOf(socket).poolId;
  }

  /**
   * Follows a new configuration: ends the connections of replicas that are not in it, and takes up
   * those that outlived the object's last life.
   */
  follow(nowMs: number): PoolEffect[] {
    return this.#state.getWebSockets().flatMap((socket) => {
      const { hello } = attachmentOf(socket);
      if (hello === undefined) return [];
      if (this.#pool.replicaAt(hello.endpointUrl) === undefined) {
        return this.end(
          socket,
          REPLICA_CLOSE_CODES.unknownReplica,
          "Not in the configuration",
          nowMs,
        );
      }
      return this.#replicaOf.has(socket) ? [] : this.#adopt(socket, hello, nowMs);
    });
  }

  /**
   * Passes a frame to the pool, or ends a connection that says the wrong thing. A report of a
   * connection that has not said hello is passed over: events of one connection may overtake each
   * other, and the next report is due soon.
   */
  hear(socket: WebSocket, frame: ReplicaFrame, nowMs: number): PoolEffect[] {
    const replicaId = this.#replicaOf.get(socket);
    if (frame.kind === "report") {
      if (replicaId === undefined) return [];
      return this.#callPool({ kind: "report", replicaId, report: frame }, nowMs);
    }
    // A hello may also be overtaken by the end of its connection.
    if (socket.readyState !== WebSocket.READY_STATE_OPEN) return [];
    if (replicaId !== undefined) {
      return this.end(socket, REPLICA_CLOSE_CODES.badFrame, "Expected one hello", nowMs);
    }
    if (this.#pool.replicaAt(frame.endpointUrl) === undefined) {
      return this.end(
        socket,
        REPLICA_CLOSE_CODES.unknownReplica,
        "Not in the configuration",
        nowMs,
      );
    }
    attach(socket, { ...attachmentOf(socket), hello: frame });
    return this.#adopt(socket, frame, nowMs);
  }

  /** Asks a replica to tell all that it has cached. */
  askPrefixes(replicaId: ReplicaId): void {
    this.#socketOf.get(replicaId)?.send(PREFIXES_WANTED);
  }

  /** Ends a connection and says why. */
  end(socket: WebSocket, code: ReplicaCloseCode, reason: string, nowMs: number): PoolEffect[] {
    const effects = this.lost(socket, nowMs);
    this.#close(socket, code, reason);
    return effects;
  }

  /** Ends all connections of a pool that takes nothing in and in which nothing runs. */
  endAll(nowMs: number): PoolEffect[] {
    return this.#state
      .getWebSockets()
      .filter(({ readyState }) => readyState === WebSocket.READY_STATE_OPEN)
      .flatMap((socket) =>
        this.end(socket, REPLICA_CLOSE_CODES.poolClosed, "The pool is closed", nowMs),
      );
  }

  /** A connection is gone. One that another has replaced speaks for nobody any more. */
  lost(socket: WebSocket, nowMs: number): PoolEffect[] {
    const replicaId = this.#replicaOf.get(socket);
    if (replicaId === undefined) return [];
    this.#replicaOf.delete(socket);
    this.#socketOf.delete(replicaId);
    return this.#callPool({ kind: "disconnected", replicaId }, nowMs);
  }

  #adopt(socket: WebSocket, hello: ReplicaHello, nowMs: number): PoolEffect[] {
    const replicaId = this.#pool.replicaAt(hello.endpointUrl);
    if (replicaId === undefined) return [];
    const before = this.#socketOf.get(replicaId);
    if (before !== undefined) {
      this.#replicaOf.delete(before);
      this.#close(before, REPLICA_CLOSE_CODES.replaced, "The replica has dialled in again");
    }
    this.#replicaOf.set(socket, replicaId);
    this.#socketOf.set(replicaId, socket);
    return this.#callPool({ kind: "connected", hello }, nowMs);
  }

  #close(socket: WebSocket, code: ReplicaCloseCode, reason: string): void {
    // Until the other end answers, the runtime still lists the socket: without its hello a later
    // life of the object does not take it for a replica.
    const { poolId, openedAtMs } = attachmentOf(socket);
    attach(socket, { poolId, openedAtMs });
    socket.close(code, reason);
  }

  /** Ends the connections that have not said who they are in time; false when there is none. */
  #makeRoom(nowMs: number): boolean {
    const silent = this.#state.getWebSockets().filter((socket) => {
      const { hello, openedAtMs } = attachmentOf(socket);
      return hello === undefined && nowMs - openedAtMs > HELLO_MS_MAX;
    });
    for (const socket of silent) {
      this.#close(socket, REPLICA_CLOSE_CODES.badFrame, "Expected a hello in time");
    }
    return silent.length > 0;
  }
}

function attach(socket: WebSocket, attachment: Attachment): void {
  socket.serializeAttachment(attachment);
}

function attachmentOf(socket: WebSocket): Attachment {
  return Attachment.parse(socket.deserializeAttachment());
}
