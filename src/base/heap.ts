import { assert } from "./assert.ts";

/** A heap's entries, in heap order. */
export interface KeyedHeapState<Key extends string | number> {
  readonly entries: HeapEntry<Key>[];
  /** Insertions so far. */
  added: number;
}

interface HeapEntry<Key extends string | number> {
  readonly key: Key;
  priority: number;
  /** Among equal priorities the earlier insertion comes first. */
  readonly order: number;
}

/**
 * A binary heap of keys, the lowest priority first, in which any key can be found, moved and
 * removed in O(log n).
 */
export class KeyedHeap<Key extends string | number> {
  readonly state: KeyedHeapState<Key>;
  readonly #indexOf = new Map<Key, number>();

  constructor(state: KeyedHeapState<Key> = { entries: [], added: 0 }) {
    this.state = state;
    for (const [index, { key }] of state.entries.entries()) this.#indexOf.set(key, index);
  }

  get size(): number {
    return this.state.entries.length;
  }

  has(key: Key): boolean {
    return this.#indexOf.has(key);
  }

  priorityOf(key: Key): number | undefined {
    const index = this.#indexOf.get(key);
    return index === undefined ? undefined : this.#at(index).priority;
  }

  /** The key with the lowest priority. */
  get first(): Key | undefined {
    return this.state.entries[0]?.key;
  }

  get firstPriority(): number | undefined {
    return this.state.entries[0]?.priority;
  }

  /** Adds a key, or gives one that is there another priority. */
  set(key: Key, priority: number): void {
    assert(!Number.isNaN(priority), "a priority is a number");
    const index = this.#indexOf.get(key);
    if (index === undefined) {
      this.state.entries.push({ key, priority, order: this.state.added });
      this.state.added += 1;
      this.#indexOf.set(key, this.size - 1);
      this.#rise(this.size - 1);
      return;
    }
    this.#at(index).priority = priority;
    this.#sink(this.#rise(index));
  }

  /** Removes a key; false when it is not there. */
  delete(key: Key): boolean {
    const index = this.#indexOf.get(key);
    if (index === undefined) return false;
    this.#swap(index, this.size - 1);
    this.state.entries.pop();
    this.#indexOf.delete(key);
    if (index < this.size) this.#sink(this.#rise(index));
    return true;
  }

  /** The first keys in order, without removing them: O(n²) in `count` at the most, whatever the heap's size. */
  firstKeys(count: number): Key[] {
    const keys: Key[] = [];
    for (const key of this.inOrder()) {
      if (keys.length >= count) break;
      keys.push(key);
    }
    return keys;
  }

  /** The keys in order, without removing them, as far as somebody asks for them; nothing is changed meanwhile. */
  *inOrder(): Generator<Key> {
    // Children of what was taken: the next key is always one of them.
    const frontier = this.size > 0 ? [0] : [];
    while (frontier.length > 0) {
      let best = 0;
      for (let i = 1; i < frontier.length; i++) {
        if (this.#isBefore(frontier[i] ?? 0, frontier[best] ?? 0)) best = i;
      }
      const [index = 0] = frontier.splice(best, 1);
      yield this.#at(index).key;
      for (const child of [2 * index + 1, 2 * index + 2]) {
        if (child < this.size) frontier.push(child);
      }
    }
  }

  /** All keys, in no order that means anything. */
  keys(): Key[] {
    return this.state.entries.map(({ key }) => key);
  }

  checkInvariants(): void {
    assert(this.#indexOf.size === this.size, "every key is there once");
    for (let index = 1; index < this.size; index++) {
      assert(!this.#isBefore(index, (index - 1) >>> 1), "no key comes before its parent");
    }
    for (const [key, index] of this.#indexOf) {
      assert(this.#at(index).key === key, "every key is where it is said to be");
    }
  }

  #at(index: number): HeapEntry<Key> {
    const entry = this.state.entries[index];
    assert(entry !== undefined, "an index is within the heap");
    return entry;
  }

  #isBefore(a: number, b: number): boolean {
    const left = this.#at(a);
    const right = this.#at(b);
    if (left.priority !== right.priority) return left.priority < right.priority;
    return left.order < right.order;
  }

  #swap(a: number, b: number): void {
    if (a === b) return;
    const { entries } = this.state;
    const left = this.#at(a);
    const right = this.#at(b);
    entries[a] = right;
    entries[b] = left;
    this.#indexOf.set(right.key, a);
    this.#indexOf.set(left.key, b);
  }

  #rise(from: number): number {
    let index = from;
    while (index > 0) {
      const parent = (index - 1) >>> 1;
      if (!this.#isBefore(index, parent)) break;
      this.#swap(index, parent);
      index = parent;
    }
    return index;
  }

  #sink(from: number): void {
    let index = from;
    for (;;) {
      const left = 2 * index + 1;
      const right = left + 1;
      let least = index;
      if (left < this.size && this.#isBefore(left, least)) least = left;
      if (right < this.size && this.#isBefore(right, least)) least = right;
      if (least === index) return;
      this.#swap(index, least);
      index = least;
    }
  }
}
