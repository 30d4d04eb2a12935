import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeState, encodeState } from "../../../src/base/state-text.ts";

const KEY = fc.oneof(fc.string(), fc.constantFrom("$", "$map", "__proto__", "entries"));

const { tree } = fc.letrec((tie) => ({
  tree: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom(undefined, null, Number.NaN, Number.POSITIVE_INFINITY, -Infinity, -0),
    fc.double(),
    fc.string({ unit: "binary" }),
    fc.boolean(),
    fc.array(tie("tree"), { maxLength: 4 }),
    fc
      .array(fc.tuple(KEY, tie("tree")), { maxLength: 4 })
      .map((entries) => Object.fromEntries(entries)),
    fc
      .array(fc.tuple(fc.oneof(KEY, fc.double()), tie("tree")), { maxLength: 4 })
      .map((entries) => new Map(entries)),
  ),
}));

describe("encodeState()", () => {
  test("what is written is read back as it was", () => {
    fc.assert(
      fc.property(tree, (state) => {
        expect(decodeState(encodeState(state))).toStrictEqual(state);
      }),
    );
  });

  test("writes one line, whatever is in it", () => {
    fc.assert(
      fc.property(tree, (state) => {
        expect(encodeState(state)).not.toContain("\n");
      }),
    );
  });

  test("leaves what JSON can say as JSON says it", () => {
    const state = { list: [1, "a", true, null], object: { n: 0.5 } };
    expect(encodeState(state)).toBe(JSON.stringify(state));
  });

  test("tells a hole in an array as undefined", () => {
    const sparse: number[] = [];
    sparse[1] = 7;
    expect(decodeState(encodeState(sparse))).toStrictEqual([undefined, 7]);
  });

  test("keeps the entries of a map in their order", () => {
    const map = new Map([3, 1, 2].map((key) => [key, key]));
    const read = decodeState(encodeState(map));
    expect(read instanceof Map ? [...read.keys()] : read).toEqual([3, 1, 2]);
  });

  test.each([
    ["an instance of a class", new Date(0)],
    ["a set", { deep: new Set([1]) }],
    ["a function", { deep: () => 1 }],
    ["a symbol", [Symbol("s")]],
    ["a big integer", [1n]],
  ])("refuses %s", (_, state) => {
    expect(() => encodeState(state)).toThrow("state holds no");
  });
});

describe("decodeState()", () => {
  test.each([
    ["a tag that nothing is written with", '{"$":"date"}', "a tag is one of those"],
    ["a tag that is no text", '{"$":1}', "a tag is one of those"],
    ["a map without entries", '{"$":"map"}', "has entries"],
    ["an entry without a value", '{"$":"map","entries":[[1]]}', "a key and a value"],
    ["a key that is neither text nor number", '{"$":"map","entries":[[true,1]]}', "a key is"],
    ["no JSON", "{", "JSON"],
  ])("refuses %s", (_, text, message) => {
    expect(() => decodeState(text)).toThrow(message);
  });
});
