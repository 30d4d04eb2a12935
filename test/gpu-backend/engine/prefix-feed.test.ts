import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { PrefixChanges } from "../../../gpu-backend/engine/kv-cache/prefix-names.ts";
import { PrefixFeed } from "../../../gpu-backend/engine/prefix-feed.ts";
import { REPORTED_PREFIXES_MAX, ReplicaReport } from "../../../src/protocol/engine-api.ts";
import { PrefixIndex } from "../../../src/replicas/prefix-index.ts";

const nameOf = (number: number) => `name${String(number).padStart(4, "0")}`;
const namesOf = (numbers: readonly number[]) => numbers.map(nameOf).join("");

/** Hears all that there is to tell; returns how many parts that took. */
function hearAll(feed: PrefixFeed, index: PrefixIndex): number {
  let parts = 0;
  for (let part = feed.next(); part !== undefined; part = feed.next()) {
    expect(ReplicaReport.shape.cached.parse(part)).toEqual(part);
    index.told(part, 0);
    parts += 1;
  }
  return parts;
}

const heard = (index: PrefixIndex) => [...index.state.keys.keys()].toSorted();

describe("PrefixFeed", () => {
  test("begins with a whole account, and goes on with what changes", () => {
    const feed = new PrefixFeed();
    feed.apply({ stored: namesOf([1, 2]), removed: "" });
    expect(feed.next()).toEqual({
      sequence: 1,
      isWhole: true,
      stored: namesOf([1, 2]),
      removed: "",
    });
    expect([feed.hasNews, feed.next()]).toEqual([false, undefined]);
    feed.apply({ stored: nameOf(3), removed: nameOf(1) });
    const { stored, removed, ...part } = feed.next() ?? { stored: "", removed: "" };
    expect({ part, stored, removed }).toEqual({
      part: { sequence: 2, isWhole: false },
      stored: nameOf(3),
      removed: nameOf(1),
    });
  });

  test("tells an empty cache too, so that nothing else is believed", () => {
    expect(new PrefixFeed().next()).toMatchObject({ isWhole: true, stored: "" });
  });

  test("tells as much as fits at a time", () => {
    const feed = new PrefixFeed();
    const numbers = Array.from({ length: 2 * REPORTED_PREFIXES_MAX + 1 }, (_, number) => number);
    feed.apply({ stored: namesOf(numbers), removed: "" });
    const index = new PrefixIndex();
    expect(hearAll(feed, index)).toBe(3);
    expect(heard(index)).toEqual(numbers.map(nameOf).toSorted());
  });

  test("does not grow while nobody asks, however much comes and goes", () => {
    const feed = new PrefixFeed();
    hearAll(feed, new PrefixIndex());
    for (let number = 0; number < 9_000; number += 1) {
      feed.apply({ stored: nameOf(number), removed: "" });
      feed.apply({ stored: "", removed: nameOf(number) });
    }
    const index = new PrefixIndex();
    expect(hearAll(feed, index)).toBeLessThanOrEqual(2);
    expect(heard(index)).toEqual([]);
  });

  test("leads whoever hears all of it to what is cached, wherever it begins", () => {
    const names = fc.uniqueArray(fc.integer({ min: 0, max: 9 }), { maxLength: 5 });
    const step = fc.oneof(
      fc.record({ kind: fc.constant("change"), stored: names, removed: names }),
      fc.record({ kind: fc.constantFrom("hear", "restart", "another pool") }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        const feed = new PrefixFeed();
        const cached = new Set<string>();
        const accounts: (readonly [string[], string[]])[] = [];
        let index = new PrefixIndex();
        for (const one of steps) {
          if ("stored" in one) {
            const removed = one.removed.filter((number) => cached.has(nameOf(number)));
            const stored = one.stored.filter(
              (number) => !cached.has(nameOf(number)) && !removed.includes(number),
            );
            for (const number of removed) cached.delete(nameOf(number));
            for (const number of stored) cached.add(nameOf(number));
            const changes: PrefixChanges = { stored: namesOf(stored), removed: namesOf(removed) };
            feed.apply(changes);
          } else if (one.kind === "hear") {
            hearAll(feed, index);
            accounts.push([heard(index), [...cached].toSorted()]);
          } else {
            feed.restart();
            if (one.kind === "another pool") index = new PrefixIndex();
          }
        }
        hearAll(feed, index);
        accounts.push([heard(index), [...cached].toSorted()]);
        for (const [then, now] of accounts) expect(then).toEqual(now);
      }),
    );
  });
});
