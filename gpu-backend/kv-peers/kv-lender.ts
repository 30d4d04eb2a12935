import { randomUUID } from "node:crypto";
import type { MessagePort } from "node:worker_threads";
import type { KvVersion } from "../kv-tiers/kv-block-file.ts";
import type { FromEngine, LeaseAnswer, LendCall, ToEngine } from "./kv-messages.ts";

/** Blocks that are held for a reader elsewhere. */
export interface OpenLease {
  readonly kind: "lent";
  readonly blocks: number;
  /** The bytes of some blocks, the caller's from now on; `undefined` once the lease has ended. */
  read(from: number, count: number): Promise<Uint8Array<ArrayBuffer> | undefined>;
  /** Gives the blocks back; whatever has become of them. */
  close(): void;
}

type Answer = Extract<FromEngine, { kind: "lease" | "bytes" }>;

/** Asks the engine's thread for KV that an engine elsewhere wants, from the thread that serves HTTP. */
export class KvLender {
  readonly #port: MessagePort;
  readonly #open = new Map<number, (answer: Answer | undefined) => void>();
  #calls = 0;
  #isOver = false;

  /** The other end of the port has come to its end with the engine's thread: nothing is answered any more. */
  constructor(port: MessagePort) {
    this.#port = port;
    port.on("close", () => {
      this.#isOver = true;
      for (const resolve of this.#open.values()) resolve(undefined);
      this.#open.clear();
    });
  }

  hear(answer: Answer): void {
    this.#open.get(answer.call)?.(answer);
    this.#open.delete(answer.call);
  }

  /** Holds what there is of a beginning; the lease is the caller's to close. `undefined`: the engine is gone. */
  async lend(
    version: KvVersion,
    hashes: readonly string[],
  ): Promise<OpenLease | Exclude<LeaseAnswer, { kind: "opened" }> | undefined> {
    const lease = randomUUID();
    const answer = await this.#ask((call) => ({ kind: "open", call, lease, version, hashes }));
    if (answer?.kind !== "lease") return undefined;
    if (answer.answer.kind !== "opened") return answer.answer;
    return {
      kind: "lent",
      blocks: answer.answer.blocks,
      read: async (from, count) => {
        const part = await this.#ask((call) => ({ kind: "read", call, lease, from, count }));
        return part?.kind === "bytes" ? part.bytes : undefined;
      },
      close: () => this.#post({ kind: "close", lease }),
    };
  }

  async #ask(callOf: (call: number) => LendCall): Promise<Answer | undefined> {
    if (this.#isOver) return undefined;
    this.#calls += 1;
    const call = callOf(this.#calls);
    return new Promise((resolve) => {
      this.#open.set(call.call, resolve);
      this.#post(call);
    });
  }

  #post(message: ToEngine): void {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a port has no origin
    this.#port.postMessage(message);
  }
}
