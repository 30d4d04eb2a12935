import type { Prospects } from "../src/pool/offer.ts";
import { AttemptPatience } from "./attempt-patience.ts";
import { LazyTimer } from "./lazy-timer.ts";

/** What a stream's pauses are held against. */
export interface StallWatchOptions {
  /** A pause this long is a stall. */
  readonly markMs: number;
  /** After one this long another replica goes on with the answer, if there is one. */
  readonly giveUpMs: number;
  /** A client that does not read holds its replica up: that is no stall of the replica's. */
  readonly isBlocked: () => boolean;
  /** To be told of every stall, while it lasts. */
  readonly onStall: () => void;
  /** Present where another replica could go on; tells what to hope for, `undefined` where nobody can say. */
  readonly prospects?: (() => Promise<Prospects | undefined>) | undefined;
}

/**
 * Watches over the pauses of a stream behind its first token. One that is too long is told of; where another
 * replica could go on, the stream is given up while there is still time for that, and only if one has a slot.
 * Alone, a replica that pauses is the best there is.
 */
export class StallWatch {
  readonly #options: StallWatchOptions;
  readonly #abort = new AbortController();
  readonly #mark = new LazyTimer(() => this.#onMark());
  #heardAtMs = 0;
  #patience: AttemptPatience | undefined;

  constructor(options: StallWatchOptions) {
    this.#options = options;
  }

  /** Fires when the stream is given up. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** The replica has said something: its next pause begins. */
  heard(nowMs: number): void {
    this.#endPause();
    this.#heardAtMs = nowMs;
    this.#mark.set(nowMs + this.#options.markMs);
  }

  /** All text is there, or nothing more comes: from now on nothing is a stall. */
  end(): void {
    this.#endPause();
    this.#mark.clear();
  }

  #onMark(): void {
    const { isBlocked, onStall, prospects, giveUpMs } = this.#options;
    if (isBlocked()) return;
    onStall();
    if (prospects === undefined) return;
    const patience = new AttemptPatience({
      limitMs: this.#heardAtMs + giveUpMs - Date.now(),
      prospects,
      // Both copies would be late, and the client waits in the middle of a sentence.
      hedge: async () => false,
    });
    this.#patience = patience;
    patience.signal.addEventListener("abort", () => this.#abort.abort(), { once: true });
  }

  #endPause(): void {
    this.#patience?.end();
    this.#patience = undefined;
  }
}
