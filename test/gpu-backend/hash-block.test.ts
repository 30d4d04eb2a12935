import * as fc from "fast-check";
import { expect, test } from "vitest";
import { hashBlock } from "../../gpu-backend/hash-block.ts";

test("a list and a typed array of the same tokens have one hash", () => {
  expect(hashBlock("p", Int32Array.of(1, 2))).toBe(hashBlock("p", [1, 2]));
});

test("different parents, tokens or adapters have different hashes, also where their bytes run together", () => {
  const parent = fc.string({ unit: "binary", maxLength: 2 });
  const adapter = fc.option(fc.string({ minLength: 1, maxLength: 2 }), { nil: undefined });
  const block = fc.tuple(parent, fc.array(fc.nat(70_000), { minLength: 1 }), adapter);
  fc.assert(
    fc.property(block, block, ([parentA, tokensA, adapterA], [parentB, tokensB, adapterB]) => {
      const isSame =
        parentA === parentB && tokensA.join() === tokensB.join() && adapterA === adapterB;
      const isEqual =
        hashBlock(parentA, tokensA, adapterA) === hashBlock(parentB, tokensB, adapterB);
      expect(isEqual).toBe(isSame);
    }),
  );
  // The token 0x64636261 is the letters "abcd".
  expect(hashBlock("abcd", [1])).not.toBe(hashBlock("", [0x64636261, 1]));
  expect(hashBlock("", [1], "abcd")).not.toBe(hashBlock("", [0x64636261, 1]));
  expect(hashBlock("ab", [1], "c")).not.toBe(hashBlock("a", [1], "bc"));
});
