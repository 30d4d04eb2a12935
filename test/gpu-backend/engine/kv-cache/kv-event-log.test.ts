import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type KvEvent, KvEventLog } from "../../../../gpu-backend/engine/kv-cache/kv-event-log.ts";
import { PrefixCache } from "../../../../gpu-backend/engine/kv-cache/prefix-cache.ts";

const HASHES = ["a", "b", "c", "d"];
const BLOCKS = 5;

/** What a reader comes to know that applies events in order. */
function apply(known: Set<string>, events: readonly KvEvent[]): void {
  for (const event of events) {
    if (event.kind === "all-cleared") known.clear();
    else if (event.kind === "stored") known.add(event.hash);
    else known.delete(event.hash);
  }
}

describe("KvEventLog", () => {
  test("tells of a hash when its first copy comes and when its last one goes", () => {
    const log = new KvEventLog(10);
    const prefixes = new PrefixCache(log);
    prefixes.register("h", 3);
    prefixes.register("h", 5);
    prefixes.forget(3);
    expect(log.take(10)).toEqual([{ kind: "stored", hash: "h" }]);
    prefixes.forget(5);
    prefixes.forget(5);
    expect(log.take(10)).toEqual([{ kind: "removed", hash: "h" }]);
  });

  test("what was cleared need not be told any more", () => {
    const log = new KvEventLog(10);
    const prefixes = new PrefixCache(log);
    prefixes.register("h", 3);
    prefixes.clear();
    prefixes.register("g", 3);
    const cleared = [{ kind: "all-cleared" }, { kind: "stored", hash: "g" }];
    expect(log.take(10)).toEqual(cleared);
    expect(log.take(10)).toEqual([]);
  });

  test("events are taken once, the oldest first, and no more than asked for", () => {
    const log = new KvEventLog(10);
    const prefixes = new PrefixCache(log);
    for (const [block, hash] of HASHES.entries()) prefixes.register(hash, block);
    const taken = [log.take(1), log.take(2), log.take(2), log.take(2)];
    const hashes = taken.map((events) => events.map((event) => "hash" in event && event.hash));
    expect(hashes).toEqual([["a"], ["b", "c"], ["d"], []]);
  });

  test("at its bound is replaced by what is stored", () => {
    const log = new KvEventLog(4);
    const prefixes = new PrefixCache(log);
    prefixes.register("kept", 0);
    prefixes.register("h", 1);
    prefixes.forget(1);
    prefixes.register("g", 1);
    prefixes.forget(1);
    expect(log.take(10)).toEqual([{ kind: "all-cleared" }, { kind: "stored", hash: "kept" }]);
  });

  test("is never longer than its bound, and leads every reader to what can be hit", () => {
    const operation = fc.record({
      kind: fc.oneof(
        { arbitrary: fc.constantFrom("register", "forget"), weight: 12 },
        fc.constant("take or clear"),
      ),
      hash: fc.constantFrom(...HASHES),
      block: fc.nat(BLOCKS - 1),
      count: fc.nat(9),
    });
    let replacements = 0;
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 60, size: "max" }), (operations) => {
        const eventsMax = BLOCKS + 1;
        const log = new KvEventLog(eventsMax);
        const prefixes = new PrefixCache(log);
        const known = new Set<string>();
        // Whether a clearing is the oldest event still there.
        let isCleared = false;
        for (const { kind, hash, block, count } of operations) {
          if (kind === "register" && !prefixes.has(block)) prefixes.register(hash, block);
          if (kind === "forget") prefixes.forget(block);
          if (kind === "take or clear" && count > 0) {
            apply(known, log.take(count));
            isCleared = false;
          }
          if (kind === "take or clear" && count === 0) {
            prefixes.clear();
            isCleared = true;
          }
        }
        const rest = log.take(1000);
        expect(rest.length).toBeLessThanOrEqual(eventsMax);
        if (!isCleared && rest[0]?.kind === "all-cleared") replacements += 1;
        apply(known, rest);
        expect([...known].toSorted()).toEqual(
          HASHES.filter((hash) => prefixes.find(hash) !== undefined),
        );
      }),
      { numRuns: 500 },
    );
    expect(replacements).toBeGreaterThan(20);
  });
});
