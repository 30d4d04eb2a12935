import * as fc from "fast-check";
import { expect, test } from "vitest";
import { hashBlock } from "../../gpu-backend/hash-block.ts";

test("a list and a typed array of the same tokens have one hash", () => {
  expect(hashBlock("p", Int32Array.of(1, 2))).toBe(hashBlock("p", [1, 2]));
});

test("different parents or tokens have different hashes, also where their bytes run together", () => {
  const block = fc.tuple(fc.string({ unit: "binary" }), fc.array(fc.nat(70_000), { minLength: 1 }));
  fc.assert(
    fc.property(block, block, ([parentA, tokensA], [parentB, tokensB]) => {
      const isSame = parentA === parentB && tokensA.join() === tokensB.join();
      expect(hashBlock(parentA, tokensA) === hashBlock(parentB, tokensB)).toBe(isSame);
    }),
  );
  // The token 0x64636261 is the letters "abcd".
  expect(hashBlock("abcd", [1])).not.toBe(hashBlock("", [0x64636261, 1]));
});
