import type { Problem } from "../src/protocol/errors.ts";
import { encodeErrorFrame } from "../src/streaming/error-frame.ts";
import { CLIENT_GONE } from "./call-watch.ts";
import { GatewayError } from "./gateway-error.ts";
import { LazyTimer } from "./lazy-timer.ts";

/** How patient a `ClientStream` is, and whom it tells that the client has left. */
export interface ClientStreamOptions {
  /** For so long the head waits for the first token; 2 s when absent. */
  readonly headHoldMs?: number;
  /** After so long a silence a comment is written; 1 s when absent. */
  readonly heartbeatMs?: number;
  /** What the head says beside the fixed headers; asked when it goes out. */
  readonly headers: () => Readonly<Record<string, string>>;
  readonly onClientGone: () => void;
}

/** Of every answer that is streamed. */
export const STREAM_HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  // Whoever transforms or buffers a stream of tokens takes its pace away.
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
} as const;

/** A failure within it still gets a status of its own; most first tokens come earlier. */
const HEAD_HOLD_MS = 2_000;
const HEARTBEAT_MS = 1_000;
const KEEP_ALIVE = ": keep-alive\n\n";

/**
 * The client's side of a streamed answer. The head is held until there is something to send, or
 * for `headHoldMs`: until then a failure is a status of its own, after that an event in the stream.
 * From the head on, a comment breaks every silence, because only a failing write tells that a
 * client has closed.
 */
export class ClientStream {
  /** The response, once its head is due. Rejects with a `GatewayError` when it failed before. */
  readonly response: Promise<Response>;
  readonly #options: ClientStreamOptions;
  readonly #heartbeatMs: number;
  readonly #readable: ReadableStream<Uint8Array>;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #encoder = new TextEncoder();
  readonly #pulse = new LazyTimer(() => this.#onPulse());
  #sendHead: (response: Response) => void = () => {};
  #refuse: (error: GatewayError) => void = () => {};
  #state: "held" | "open" | "over" = "held";
  #pendingWrites = 0;

  constructor(options: ClientStreamOptions) {
    this.#options = options;
    this.#heartbeatMs = options.heartbeatMs ?? HEARTBEAT_MS;
    const { readable, writable } = new IdentityTransformStream();
    this.#readable = readable;
    this.#writer = writable.getWriter();
    this.response = new Promise((resolve, reject) => {
      this.#sendHead = resolve;
      this.#refuse = reject;
    });
    this.#pulse.set(Date.now() + (options.headHoldMs ?? HEAD_HOLD_MS));
  }

  /** Whether the client has not taken yet what was written last. */
  get isBlocked(): boolean {
    return this.#pendingWrites > 0;
  }

  /** Sends text, and the head before it. Resolves when the client has taken it, or has left. */
  async send(text: string): Promise<void> {
    if (this.#state === "over") return;
    this.#open();
    await this.#write(text);
  }

  /** Sends the last text and ends the stream. */
  async end(text: string): Promise<void> {
    await this.send(text);
    await this.#close();
  }

  /** Ends with a problem: as the response's status while the head is held, else as one event. */
  async fail(problem: Problem): Promise<void> {
    if (this.#state === "held") {
      this.#refuse(new GatewayError(problem));
      await this.abort();
    } else {
      await this.end(encodeErrorFrame(problem));
    }
  }

  /** Drops a client that has left or does not read. */
  async abort(): Promise<void> {
    // The response must settle, although nobody is there to see it.
    this.#refuse(new GatewayError(CLIENT_GONE));
    this.#state = "over";
    this.#pulse.clear();
    await this.#writer.abort("the client has left").catch(() => {});
  }

  #open(): void {
    if (this.#state !== "held") return;
    this.#state = "open";
    const headers = { ...STREAM_HEADERS, ...this.#options.headers() };
    this.#sendHead(new Response(this.#readable, { headers }));
  }

  /** Writes never wait for each other: a blocked client gets no comments on top. */
  #onPulse(): void {
    if (this.#state === "over") return;
    this.#open();
    if (this.isBlocked) this.#pulse.set(Date.now() + this.#heartbeatMs);
    else void this.#write(KEEP_ALIVE);
  }

  async #write(text: string): Promise<void> {
    this.#pendingWrites++;
    try {
      await this.#writer.write(this.#encoder.encode(text));
    } catch {
      this.#options.onClientGone();
      await this.abort();
      return;
    } finally {
      this.#pendingWrites--;
    }
    if (this.#state === "open") this.#pulse.set(Date.now() + this.#heartbeatMs);
  }

  async #close(): Promise<void> {
    if (this.#state === "over") return;
    this.#state = "over";
    this.#pulse.clear();
    await this.#writer.close().catch(() => this.#options.onClientGone());
  }
}
