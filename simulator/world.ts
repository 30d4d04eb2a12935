import { assert } from "../src/base/assert.ts";
import { hashText } from "../src/base/hash.ts";
import type { Random } from "../src/base/random.ts";
import { seededRandom } from "../src/base/random.ts";
import { EventQueue } from "./event-queue.ts";

/** Where a world's run ends. */
export interface RunBounds {
  /** Nothing later than this happens. */
  readonly endAtMs: number;
  /** A run that takes more events than this is caught in a loop. */
  readonly eventsMax: number;
}

/**
 * Virtual time and chance of one simulation: one seed, one history.
 *
 * Chance comes in sequences of their own, one for each purpose, all of the seed: what one actor draws
 * does not shift what another one draws, so that two runs of a seed that differ in a policy have the
 * same arrivals and the same faults, and can be compared in pairs.
 */
export class World {
  readonly #seed: number;
  readonly #events = new EventQueue();
  readonly #watchers: (() => void)[] = [];
  #nowMs = 0;
  #happened = 0;

  constructor(seed: number) {
    this.#seed = seed;
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  /** A sequence of numbers that is the same for the same seed and purpose. */
  randomFor(purpose: string): Random {
    return seededRandom(hashText(`${this.#seed}/${purpose}`));
  }

  /** Lets something happen after a while; not before what is scheduled for the same instant already. */
  after(delayMs: number, happen: () => void): void {
    assert(delayMs >= 0, "nothing happens in the past");
    this.#events.add(this.#nowMs + delayMs, happen);
  }

  /** Lets something happen at an instant that has not passed. */
  at(atMs: number, happen: () => void): void {
    this.after(atMs - this.#nowMs, happen);
  }

  /** Calls `check` after every event from now on. */
  afterEachEvent(check: () => void): void {
    this.#watchers.push(check);
  }

  /** Lets everything happen that is due up to the end. Throws when that takes too many events. */
  runToEnd({ endAtMs, eventsMax }: RunBounds): void {
    const happenedMax = this.#happened + eventsMax;
    while (this.#events.nextAtMs <= endAtMs) {
      assert(this.#happened < happenedMax, `the world comes to its end within ${eventsMax} events`);
      const event = this.#events.take();
      assert(event !== undefined, "an event that is due is there");
      this.#nowMs = event.atMs;
      this.#happened += 1;
      event.happen();
      for (const check of this.#watchers) check();
    }
    this.#nowMs = Math.max(this.#nowMs, endAtMs);
  }
}
