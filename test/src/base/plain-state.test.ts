import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { copyState } from "../../../src/base/plain-state.ts";

class Instance {
  readonly value = 1;
}

describe("copyState()", () => {
  test("a copy equals what it was made of", () => {
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof(
        { maxDepth: 4 },
        fc.constantFrom(undefined, null, Number.POSITIVE_INFINITY, -0),
        fc.double(),
        fc.string(),
        fc.boolean(),
        fc.array(tie("tree"), { maxLength: 4 }),
        fc.dictionary(fc.string(), tie("tree"), { noNullPrototype: true, maxKeys: 4 }),
        fc
          .array(fc.tuple(fc.string(), tie("tree")), { maxLength: 4 })
          .map((entries) => new Map(entries)),
      ),
    }));
    fc.assert(
      fc.property(tree, (state) => {
        expect(copyState(state)).toStrictEqual(state);
      }),
    );
  });

  test("a change of the one is no change of the other, however deep", () => {
    const original = { list: [{ n: 1 }], map: new Map([["a", { n: 1 }]]), n: 1 };
    const copy = copyState(original);
    copy.list.push({ n: 2 });
    copy.list[0] = { n: 3 };
    const inMap = copy.map.get("a");
    if (inMap !== undefined) inMap.n = 4;
    copy.map.set("b", { n: 5 });
    copy.n = 6;
    expect(original).toEqual({ list: [{ n: 1 }], map: new Map([["a", { n: 1 }]]), n: 1 });
    expect(copy.map.get("a")).toEqual({ n: 4 });
  });

  test("the entries of a map stay in their order", () => {
    const map = new Map([3, 1, 2].map((key) => [key, key]));
    expect([...copyState(map).keys()]).toEqual([3, 1, 2]);
  });

  test.each([
    ["an instance of a class", { deep: [new Instance()] }],
    ["a set", { deep: new Set([1]) }],
    ["a date", new Map([["deep", new Date(0)]])],
    ["a function", { deep: () => 1 }],
  ])("%s is no state", (_, state) => {
    expect(() => copyState(state)).toThrow("state holds no");
  });
});
