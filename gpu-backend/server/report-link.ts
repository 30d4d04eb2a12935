import { type RawData, WebSocket } from "ws";
import type { Random } from "../../src/base/random.ts";
import {
  PREFIXES_WANTED,
  REPLICA_CLOSE_CODES,
  REPLICA_FRAME_BYTES_MAX,
  type ReplicaFrame,
  type ReplicaHello,
} from "../../src/protocol/engine-api.ts";
import { monotonicNowMs } from "../clock.ts";
import type { PrefixFeed } from "../engine/prefix-feed.ts";
import type { ReportedState } from "../engine/reported-load.ts";
import type { Log } from "../log.ts";
import { reconnectDelayMs } from "./reconnect-delay.ts";
import { ReportSchedule } from "../engine/report-schedule.ts";

export interface ReportLinkOptions {
  readonly poolUrl: string;
  readonly secret: string;
  readonly hello: ReplicaHello;
  readonly readState: () => ReportedState;
  /** What is cached here. */
  readonly prefixFeed: PrefixFeed;
  readonly log: Log;
  readonly random: Random;
}

const HANDSHAKE_MS_MAX = 5000;
/** A pool that answers no ping for this long is taken for lost: TCP alone would need minutes. */
const PING_INTERVAL_MS = 2000;
/** While a pool cannot be reached, one attempt in so many is logged: about one a minute. */
const ATTEMPTS_PER_LOG = 12;

/**
 * The engine's one WebSocket to its pool: hello, then reports as `ReportSchedule` says, until it is
 * closed. A lost connection is dialled again for ever, since an engine without its pool still
 * serves those who reach it.
 */
export class ReportLink {
  readonly #options: ReportLinkOptions;
  #socket: WebSocket | undefined;
  #schedule = new ReportSchedule();
  #sequence = 0;
  #attempts = 0;
  #isAnswered = false;
  #isClosed = false;
  #reportTimer: NodeJS.Timeout | undefined;
  #reportTimerDueAtMs = Number.POSITIVE_INFINITY;
  #pingTimer: NodeJS.Timeout | undefined;
  #dialTimer: NodeJS.Timeout | undefined;

  constructor(options: ReportLinkOptions) {
    this.#options = options;
    this.#dial();
  }

  /** Says that the state is no longer what the last report told. Cheap enough for every step. */
  changed(): void {
    if (this.#socket?.readyState !== WebSocket.OPEN) return;
    this.#schedule.changed(monotonicNowMs());
    this.#armReport();
  }

  /** Ends the connection and every attempt at another one. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#dialTimer);
    this.#stopTimers();
    this.#socket?.close(1001, "The engine stops");
  }

  #dial(): void {
    this.#attempts += 1;
    const socket = new WebSocket(this.#options.poolUrl, {
      headers: { authorization: `Bearer ${this.#options.secret}` },
      handshakeTimeout: HANDSHAKE_MS_MAX,
      maxPayload: REPLICA_FRAME_BYTES_MAX,
      perMessageDeflate: false,
    });
    this.#socket = socket;
    let reason = "";
    socket.on("open", () => this.#opened());
    socket.on("message", (message) => {
      // Whatever else a pool of another version says is not for this engine.
      if (!Buffer.from(PREFIXES_WANTED).equals(toBuffer(message))) return;
      this.#options.prefixFeed.restart();
      this.changed();
    });
    socket.on("pong", () => {
      this.#isAnswered = true;
      // Only now: a pool that accepts and hangs up at once must not be dialled at once.
      this.#attempts = 0;
    });
    socket.on("error", (error) => (reason = error.message));
    socket.on("close", (code, text) => {
      const isTold = code === REPLICA_CLOSE_CODES.poolClosed;
      this.#lost(reason || `${code} ${text.toString()}`.trim(), isTold ? "info" : "warn");
    });
  }

  #opened(): void {
    this.#options.log("info", "pool-connected", { poolUrl: this.#options.poolUrl });
    this.#schedule = new ReportSchedule();
    this.#sequence = 0;
    this.#options.prefixFeed.restart();
    this.#send(this.#options.hello);
    this.#report();
    this.#isAnswered = true;
    this.#pingTimer = setInterval(() => this.#ping(), PING_INTERVAL_MS);
  }

  #ping(): void {
    if (!this.#isAnswered) {
      this.#socket?.terminate();
      return;
    }
    this.#isAnswered = false;
    this.#socket?.ping();
  }

  #report(): void {
    // What waits in the socket already is stale: more behind it would only be stale later.
    if (this.#socket !== undefined && this.#socket.bufferedAmount <= REPLICA_FRAME_BYTES_MAX) {
      this.#sequence += 1;
      const { readState, prefixFeed } = this.#options;
      const cached = prefixFeed.next();
      const news = cached !== undefined && { cached };
      this.#send({ kind: "report", sequence: this.#sequence, ...readState(), ...news });
    }
    this.#schedule.sent(monotonicNowMs());
    if (this.#options.prefixFeed.hasNews) this.#schedule.changed(monotonicNowMs());
    this.#armReport();
  }

  #armReport(): void {
    const dueAtMs = this.#schedule.dueAtMs();
    if (this.#reportTimer !== undefined && dueAtMs >= this.#reportTimerDueAtMs) return;
    clearTimeout(this.#reportTimer);
    this.#reportTimerDueAtMs = dueAtMs;
    const delayMs = Math.max(dueAtMs - monotonicNowMs(), 0);
    this.#reportTimer = setTimeout(() => {
      this.#reportTimer = undefined;
      this.#report();
    }, delayMs);
  }

  #send(frame: ReplicaFrame): void {
    this.#socket?.send(JSON.stringify(frame));
  }

  #lost(reason: string, level: "info" | "warn"): void {
    this.#stopTimers();
    if (this.#isClosed) return;
    const { log, poolUrl, random } = this.#options;
    const isLogged = this.#attempts === 1 || this.#attempts % ATTEMPTS_PER_LOG === 0;
    if (isLogged) log(level, "pool-lost", { poolUrl, reason });
    this.#dialTimer = setTimeout(
      () => this.#dial(),
      reconnectDelayMs(Math.max(this.#attempts, 1), random),
    );
  }

  #stopTimers(): void {
    clearTimeout(this.#reportTimer);
    this.#reportTimer = undefined;
    clearInterval(this.#pingTimer);
  }
}

function toBuffer(message: RawData): Buffer {
  if (Array.isArray(message)) return Buffer.concat(message);
  return Buffer.isBuffer(message) ? message : Buffer.from(message);
}
