import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { PrefixCache } from "../../../../gpu-backend/engine/kv-cache/prefix-cache.ts";

describe("PrefixCache", () => {
  test("of two blocks with one hash, the other is still found when one is forgotten", () => {
    const prefixes = new PrefixCache();
    prefixes.register("h", 3);
    prefixes.register("h", 5);
    expect(prefixes.find("h")).toBe(3);
    prefixes.forget(3);
    expect(prefixes.find("h")).toBe(5);
    prefixes.forget(5);
    expect(prefixes.find("h")).toBeUndefined();
    expect(prefixes.blockCount).toBe(0);
  });

  test("a block is the only one of its hash as long as it has no copy", () => {
    const prefixes = new PrefixCache();
    prefixes.register("h", 3);
    expect(prefixes.onlyHashOf(3)).toBe("h");
    expect(prefixes.onlyHashOf(5)).toBeUndefined();
    prefixes.register("h", 5);
    expect([3, 5].map((block) => prefixes.onlyHashOf(block))).toEqual([undefined, undefined]);
    prefixes.forget(3);
    expect(prefixes.onlyHashOf(5)).toBe("h");
  });

  test("a block has one hash at a time", () => {
    const prefixes = new PrefixCache();
    prefixes.register("h", 3);
    expect(() => prefixes.register("g", 3)).toThrow("registered already");
  });

  test("agrees with a list of pairs", () => {
    const operation = fc.record({
      kind: fc.constantFrom("register", "forget", "clear"),
      hash: fc.constantFrom("a", "b", "c"),
      block: fc.nat(5),
      isRare: fc.nat(9),
    });
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 40, size: "max" }), (operations) => {
        const prefixes = new PrefixCache();
        let pairs: [string, number][] = [];
        for (const { kind, hash, block, isRare } of operations) {
          const isKnown = pairs.some((pair) => pair[1] === block);
          if (kind === "register" && !isKnown) {
            prefixes.register(hash, block);
            pairs.push([hash, block]);
          }
          if (kind === "forget") {
            prefixes.forget(block);
            pairs = pairs.filter((pair) => pair[1] !== block);
          }
          if (kind === "clear" && isRare === 0) {
            prefixes.clear();
            pairs = [];
          }
          prefixes.checkInvariants();
          for (const name of ["a", "b", "c"]) {
            expect(prefixes.find(name)).toBe(pairs.find((pair) => pair[0] === name)?.[1]);
          }
          expect(prefixes.has(block)).toBe(pairs.some((pair) => pair[1] === block));
          expect(prefixes.blockCount).toBe(pairs.length);
        }
      }),
      { numRuns: 300 },
    );
  });
});
