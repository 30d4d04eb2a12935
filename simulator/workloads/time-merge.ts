import { assert } from "../../src/base/assert.ts";
import { KeyedHeap } from "../../src/base/heap.ts";

/**
 * Merges streams that are each in order of time into one, and may get more streams on the way.
 *
 * Holds one item of each stream; equal times come in the order in which their heads were taken up.
 */
export class TimeMerge<Timed extends { readonly atMs: number }> {
  readonly #heads = new KeyedHeap<number>();
  readonly #streams = new Map<number, { readonly rest: Iterator<Timed>; head: Timed }>();
  #added = 0;

  /** How many streams still have something. */
  get size(): number {
    return this.#streams.size;
  }

  add(stream: Iterator<Timed>): void {
    const first = stream.next();
    if (first.done === true) return;
    this.#streams.set(this.#added, { rest: stream, head: first.value });
    this.#heads.set(this.#added, first.value.atMs);
    this.#added += 1;
  }

  /** Takes the earliest item of all, if it is not later than `untilMs`. */
  take(untilMs: number): Timed | undefined {
    const key = this.#heads.first;
    const stream = key === undefined ? undefined : this.#streams.get(key);
    if (key === undefined || stream === undefined || stream.head.atMs > untilMs) return undefined;
    const taken = stream.head;
    const next = stream.rest.next();
    if (next.done === true) {
      this.#streams.delete(key);
      this.#heads.delete(key);
    } else {
      assert(next.value.atMs >= taken.atMs, "a stream is in order of time");
      stream.head = next.value;
      this.#heads.set(key, next.value.atMs);
    }
    return taken;
  }
}
