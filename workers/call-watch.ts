import type { Problem } from "../src/protocol/errors.ts";
import { LazyTimer } from "./lazy-timer.ts";

/** Why the gateway stops a call that could still go on. */
export type StopReason = "client-gone" | "timeout";

/**
 * Watches over one call from its start to its end: whether the client is still there, and whether
 * the next thing happens in time. Whatever the call waits for hangs on `signal`.
 */
export class CallWatch {
  readonly #abort = new AbortController();
  readonly #timer: LazyTimer;
  readonly #endsAtMs: number;
  #expectedByAtMs: number;
  #reason: StopReason | undefined;

  /**
   * `endsAtMs` bounds the whole call, however well it goes. `whoIsLate` tells what it means that
   * nothing happened in time: a client that does not read holds its replica up as well.
   */
  constructor(endsAtMs: number, whoIsLate: () => StopReason = () => "timeout") {
    this.#timer = new LazyTimer(() => this.stop(whoIsLate()));
    this.#endsAtMs = endsAtMs;
    this.#expectedByAtMs = endsAtMs;
    this.#timer.set(endsAtMs);
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get reason(): StopReason | undefined {
    return this.#reason;
  }

  /** By then the next thing has to happen. */
  get expectedByAtMs(): number {
    return this.#expectedByAtMs;
  }

  /** Why the call was stopped, in words for the client. */
  get problem(): Problem | undefined {
    return this.#reason === undefined ? undefined : PROBLEMS[this.#reason];
  }

  /** Follows the signal of the client's request, which may have fired before. */
  follow(clientSignal: AbortSignal): void {
    if (clientSignal.aborted) this.stop("client-gone");
    else clientSignal.addEventListener("abort", () => this.stop("client-gone"), { once: true });
  }

  /** Sets by when something must happen; replaces the instant that was set before. */
  expectBy(atMs: number): void {
    if (this.#reason !== undefined) return;
    this.#expectedByAtMs = Math.min(atMs, this.#endsAtMs);
    this.#timer.set(this.#expectedByAtMs);
  }

  /** Stops the call. Only the first reason counts. */
  stop(reason: StopReason): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    this.#timer.clear();
    this.#abort.abort(new Error(`The call was stopped: ${reason}`));
  }

  /** Ends the watch over a call that has ended by itself. */
  dispose(): void {
    this.#timer.clear();
  }
}

/** Nobody is there to read it, but every call ends in one way. */
export const CLIENT_GONE: Problem = { code: "timeout", message: "The client has left" };

const PROBLEMS = {
  timeout: { code: "timeout" },
  "client-gone": CLIENT_GONE,
} as const satisfies Record<StopReason, Problem>;
