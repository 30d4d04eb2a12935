import { assert } from "../src/base/assert.ts";

interface ScheduledEvent {
  readonly atMs: number;
  /** Among events of one instant the one scheduled earlier happens first. */
  readonly order: number;
  readonly happen: () => void;
}

/**
 * What is to happen, the earliest first; of one instant, in the order in which it was scheduled.
 *
 * A heap of its own: events are never moved or found by a key, and without an index of keys, as
 * `KeyedHeap` has, a million of them take a third of the time.
 */
export class EventQueue {
  readonly #events: ScheduledEvent[] = [];
  #scheduled = 0;

  get size(): number {
    return this.#events.length;
  }

  /** The instant of the next event; `Infinity` when there is none. */
  get nextAtMs(): number {
    return this.#events[0]?.atMs ?? Infinity;
  }

  add(atMs: number, happen: () => void): void {
    assert(Number.isFinite(atMs), "an event has an instant");
    const event = { atMs, order: this.#scheduled, happen };
    this.#scheduled += 1;
    this.#events.push(event);
    let index = this.#events.length - 1;
    while (index > 0) {
      const parent = (index - 1) >>> 1;
      const above = this.#at(parent);
      if (!isBefore(event, above)) break;
      this.#events[index] = above;
      index = parent;
    }
    this.#events[index] = event;
  }

  /** Takes out the next event. */
  take(): ScheduledEvent | undefined {
    const first = this.#events[0];
    const last = this.#events.pop();
    if (last !== undefined && this.#events.length > 0) this.#sink(last);
    return first;
  }

  /** Puts an event where the first one was, and lets it sink to its place. */
  #sink(event: ScheduledEvent): void {
    const size = this.#events.length;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= size) break;
      if (child + 1 < size && isBefore(this.#at(child + 1), this.#at(child))) child += 1;
      const below = this.#at(child);
      if (!isBefore(below, event)) break;
      this.#events[index] = below;
      index = child;
    }
    this.#events[index] = event;
  }

  #at(index: number): ScheduledEvent {
    const event = this.#events[index];
    assert(event !== undefined, "an index is within the queue");
    return event;
  }
}

function isBefore(a: ScheduledEvent, b: ScheduledEvent): boolean {
  return a.atMs === b.atMs ? a.order < b.order : a.atMs < b.atMs;
}
