import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { KeyedHeap } from "../../../src/base/heap.ts";
import { copyState } from "../../../src/base/plain-state.ts";

/** What a heap and a list can both be told. */
interface Ordered {
  readonly first: number | undefined;
  set(key: number, priority: number): void;
  delete(key: number): boolean;
}

const step = fc.record({
  kind: fc.constantFrom("set", "delete", "take"),
  key: fc.nat(20),
  priority: fc.oneof(
    fc.nat(5),
    fc.constantFrom(Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY),
  ),
});
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;
const steps = fc.array(step, { maxLength: 100 });

/** The same as a heap, as a list that is sorted anew at every question. */
class SortedList implements Ordered {
  #entries: { readonly key: number; readonly priority: number; readonly order: number }[] = [];
  #added = 0;

  get keys(): number[] {
    return this.#entries
      .toSorted((a, b) =>
        a.priority === b.priority ? a.order - b.order : a.priority < b.priority ? -1 : 1,
      )
      .map((entry) => entry.key);
  }

  get first(): number | undefined {
    return this.keys[0];
  }

  set(changed: number, to: number): void {
    const known = this.#entries.find((entry) => entry.key === changed);
    this.delete(changed);
    this.#entries.push({ key: changed, priority: to, order: known?.order ?? this.#added });
    if (known === undefined) this.#added += 1;
  }

  delete(gone: number): boolean {
    const before = this.#entries.length;
    this.#entries = this.#entries.filter((entry) => entry.key !== gone);
    return this.#entries.length < before;
  }
}

/** Takes a step, and tells whether a key went by it. */
function take(ordered: Ordered, { kind, key, priority }: Step): boolean {
  if (kind === "set") {
    ordered.set(key, priority);
    return false;
  }
  const gone = kind === "delete" ? key : ordered.first;
  return gone !== undefined && ordered.delete(gone);
}

describe("KeyedHeap", () => {
  test("an empty heap has no first key", () => {
    const heap = new KeyedHeap<string>();
    expect([heap.first, heap.firstPriority, heap.size]).toEqual([undefined, undefined, 0]);
    expect(heap.delete("a")).toBe(false);
    expect(heap.firstKeys(3)).toEqual([]);
  });

  test("a priority is a number", () => {
    expect(() => new KeyedHeap<string>().set("a", Number.NaN)).toThrow("priority");
  });

  test("it agrees with a sorted list at every step", () => {
    fc.assert(
      fc.property(steps, fc.nat(25), (sequence, count) => {
        const heap = new KeyedHeap<number>();
        const list = new SortedList();
        for (const next of sequence) {
          expect(take(heap, next)).toBe(take(list, next));
          heap.checkInvariants();
          const { keys } = list;
          expect(heap.size).toBe(keys.length);
          expect(heap.first).toBe(keys[0]);
          expect(heap.firstKeys(count)).toEqual(keys.slice(0, count));
          expect(heap.keys().toSorted((a, b) => a - b)).toEqual(keys.toSorted((a, b) => a - b));
        }
      }),
    );
  });

  test("it knows the priority of every key that is there, and of no other", () => {
    const heap = new KeyedHeap<string>();
    heap.set("a", 3);
    heap.set("b", 1);
    heap.set("a", 0);
    expect([heap.priorityOf("a"), heap.priorityOf("b"), heap.priorityOf("c")]).toEqual([
      0,
      1,
      undefined,
    ]);
    expect(heap.firstPriority).toBe(0);
    expect([heap.has("a"), heap.has("c")]).toEqual([true, false]);
  });

  test("one that goes on from a copy of its state gives the same order as the original", () => {
    fc.assert(
      fc.property(steps, steps, (before, after) => {
        const original = new KeyedHeap<number>();
        for (const next of before) take(original, next);
        const revived = new KeyedHeap<number>(copyState(original.state));
        revived.checkInvariants();
        for (const next of after) expect(take(revived, next)).toBe(take(original, next));
        expect(revived.state).toEqual(original.state);
        expect(revived.firstKeys(30)).toEqual(original.firstKeys(30));
      }),
    );
  });
});
