import type { Problem } from "../src/protocol/errors.ts";
import type { Pacer } from "../src/streaming/pacer.ts";
import type { ClientStream } from "./client-stream.ts";
import { LazyTimer } from "./lazy-timer.ts";

/** Where an answer's text goes on its way to the client. */
export type TextSink = Pick<ClientStream, "isBlocked" | "send" | "end" | "fail">;

/** What is held beyond this goes out at once: a pace is for reading, and memory is bounded. */
const HELD_CHARACTERS_MAX = 65_536;

interface HeldText {
  readonly text: string;
  readonly dueAtMs: number;
}

/** A client whose text goes out at an even pace: what comes early is held until it is due. */
export class PacedClient implements TextSink {
  readonly #client: TextSink;
  readonly #pacer: Pacer;
  readonly #timer = new LazyTimer(() => void this.#sendDue());
  #held: HeldText[] = [];
  #heldCharacters = 0;

  constructor(client: TextSink, pacer: Pacer) {
    this.#client = client;
    this.#pacer = pacer;
  }

  get isBlocked(): boolean {
    return this.#client.isBlocked;
  }

  /** Resolves at once for what is held, else when the client has taken it. */
  async send(text: string): Promise<void> {
    const nowMs = Date.now();
    this.#held.push({ text, dueAtMs: this.#pacer.dueAtMs(nowMs) });
    this.#heldCharacters += text.length;
    if (this.#heldCharacters > HELD_CHARACTERS_MAX) await this.#client.send(this.#take(Infinity));
    else await this.#sendDue();
  }

  /** Sends all that is held and the last text, and ends the stream: an end waits for nothing. */
  async end(text: string): Promise<void> {
    this.#timer.clear();
    await this.#client.end(this.#take(Infinity) + text);
  }

  /** Sends all that is held, and then the problem. */
  async fail(problem: Problem): Promise<void> {
    this.#timer.clear();
    const text = this.#take(Infinity);
    if (text !== "") await this.#client.send(text);
    await this.#client.fail(problem);
  }

  async #sendDue(): Promise<void> {
    const text = this.#take(Date.now());
    const [next] = this.#held;
    if (next !== undefined) this.#timer.set(next.dueAtMs);
    if (text !== "") await this.#client.send(text);
  }

  /** Takes out what is due by then; texts are due in their order. */
  #take(untilMs: number): string {
    const later = this.#held.findIndex(({ dueAtMs }) => dueAtMs > untilMs);
    const due = this.#held.splice(0, later === -1 ? this.#held.length : later);
    const text = due.map((held) => held.text).join("");
    this.#heldCharacters -= text.length;
    return text;
  }
}
