import { setImmediate as turn } from "node:timers/promises";
import type { LoadClock } from "../../../cli/bench/run-load.ts";
import { EventQueue } from "../../../simulator/event-queue.ts";

/** Time that passes only when nothing else can happen, for code that waits with promises. */
export class VirtualTime implements LoadClock {
  readonly #events = new EventQueue();
  #nowMs = 0;

  readNowMs(): number {
    return this.#nowMs;
  }

  async waitUntil(atMs: number, signal?: AbortSignal): Promise<void> {
    if (atMs <= this.#nowMs || signal?.aborted === true) return;
    await new Promise<void>((resolve) => {
      const over = () => {
        signal?.removeEventListener("abort", over);
        resolve();
      };
      this.#events.add(atMs, over);
      signal?.addEventListener("abort", over);
    });
  }

  at(atMs: number, happen: () => void): void {
    this.#events.add(atMs, happen);
  }

  /** Lets time pass until the promise is settled. */
  async run<Value>(promise: Promise<Value>): Promise<Value> {
    let isOver = false;
    const over = promise.finally(() => (isOver = true));
    over.catch(() => undefined);
    for (;;) {
      await turn();
      if (isOver) return over;
      const event = this.#events.take();
      if (event === undefined) throw new Error("Everything waits and nothing is to happen");
      this.#nowMs = Math.max(this.#nowMs, event.atMs);
      event.happen();
    }
  }
}
