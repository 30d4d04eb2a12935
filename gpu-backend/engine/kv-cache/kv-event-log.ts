import { assert } from "../../../src/base/assert.ts";

/**
 * A change of what can be hit. A hash covers its block, all tokens before it and their namespace, so
 * it says where a prefix is and to nobody what it is.
 */
export type KvEvent =
  | { readonly kind: "stored"; readonly hash: string }
  | { readonly kind: "removed"; readonly hash: string }
  | { readonly kind: "all-cleared" };

/**
 * What changed in a prefix cache since it was last asked, in order: whoever applies all of it, from
 * an empty set on, has the hashes that can be hit.
 *
 * A log that grows longer than `eventsMax` because nobody asks is replaced by what it leads to:
 * `all-cleared`, then all that is stored. So it is bounded, and no reader ever misses anything.
 */
export class KvEventLog {
  readonly #eventsMax: number;
  #events: KvEvent[] = [];

  /** `eventsMax` is more than the hashes that can be stored at once. */
  constructor(eventsMax: number) {
    this.#eventsMax = eventsMax;
  }

  /** Adds a change; `storedHashes` is asked for what can be hit after it. */
  add(event: KvEvent, storedHashes: () => Iterable<string>): void {
    // Nothing before it matters any more.
    if (event.kind === "all-cleared") this.#events = [];
    this.#events.push(event);
    if (this.#events.length <= this.#eventsMax) return;
    const stored = Array.from(storedHashes(), (hash): KvEvent => ({ kind: "stored", hash }));
    this.#events = [{ kind: "all-cleared" }, ...stored];
    assert(this.#events.length <= this.#eventsMax, "A log has room for all that is stored");
  }

  /** Takes the oldest events off the log, at most so many. */
  take(eventsMax: number): KvEvent[] {
    return this.#events.splice(0, eventsMax);
  }
}
