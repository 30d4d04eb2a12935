import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  BlockChain,
  namespaceRoot,
  tenantNamespace,
} from "../../../../gpu-backend/engine/kv-cache/block-chain.ts";
import { hashBlockReadably } from "../../../support/engine-builders.ts";

const hashing = { hashBlock: hashBlockReadably, blockTokens: 2, modelRevision: "m" };
const chainOf = (tokens: number[], salt = "s") => new BlockChain(hashing, salt, tokens);

describe("namespaceRoot()", () => {
  test("keeps apart what only reads the same when it is joined", () => {
    expect(namespaceRoot("a", "bc")).not.toBe(namespaceRoot("ab", "c"));
    expect(namespaceRoot("a", "0:")).not.toBe(namespaceRoot("a2:", ""));
    expect(namespaceRoot("1:a", "b")).not.toBe(namespaceRoot("1", ":a1:b"));
  });

  test("is different for any two pairs of revision and salt", () => {
    const part = fc.string({ unit: fc.constantFrom("0", "1", "2", ":", "a"), maxLength: 6 });
    fc.assert(
      fc.property(part, part, part, part, (revision, salt, otherRevision, otherSalt) => {
        const isSame = revision === otherRevision && salt === otherSalt;
        expect(namespaceRoot(revision, salt) === namespaceRoot(otherRevision, otherSalt)).toBe(
          isSame,
        );
      }),
      { numRuns: 2000 },
    );
  });
});

describe("tenantNamespace()", () => {
  test("is different for any two pairs of tenant and salt", () => {
    const part = fc.string({ unit: fc.constantFrom("0", "1", "2", ":", "a"), maxLength: 6 });
    fc.assert(
      fc.property(part, part, part, part, (tenant, salt, otherTenant, otherSalt) => {
        const isSame = tenant === otherTenant && salt === otherSalt;
        const isEqual = tenantNamespace(tenant, salt) === tenantNamespace(otherTenant, otherSalt);
        expect(isEqual).toBe(isSame);
      }),
      { numRuns: 2000 },
    );
  });
});

describe("BlockChain", () => {
  test("a hash covers its block, all blocks before it and the salt", () => {
    const reference = chainOf([1, 2, 3, 4]).hashAt(1);
    expect(chainOf([1, 2, 3, 4, 5]).hashAt(1)).toBe(reference);
    expect(chainOf([1, 2, 3, 5]).hashAt(1)).not.toBe(reference);
    expect(chainOf([9, 2, 3, 4]).hashAt(1)).not.toBe(reference);
    expect(chainOf([1, 2, 3, 4], "t").hashAt(1)).not.toBe(reference);
  });

  test("an adapter is in the key of every block", () => {
    const keys: (string | undefined)[] = [];
    const noting = {
      ...hashing,
      hashBlock: (parent: string, tokens: readonly number[] | Int32Array, adapter?: string) => {
        keys.push(adapter);
        return hashBlockReadably(parent, tokens, adapter);
      },
    };
    const tokens = [1, 2, 3, 4, 5, 6];
    const base = chainOf(tokens);
    const adapted = new BlockChain(noting, "s", tokens, { adapter: "legal-v2" });
    for (const block of [0, 1, 2]) expect(adapted.hashAt(block)).not.toBe(base.hashAt(block));
    expect(keys).toEqual(["legal-v2", "legal-v2", "legal-v2"]);
  });

  test("hashes each block once, also when tokens are appended later", () => {
    let calls = 0;
    const tokens = [1, 2, 3, 4, 5];
    const counting = {
      ...hashing,
      hashBlock: (parent: string, blockTokens: readonly number[] | Int32Array) => {
        calls += 1;
        return hashBlockReadably(parent, blockTokens);
      },
    };
    const chain = new BlockChain(counting, "s", tokens);
    const before = [chain.hashAt(1), chain.hashAt(0)];
    tokens.push(6);
    expect([chain.hashAt(1), chain.hashAt(0)]).toEqual(before);
    expect(chain.hashAt(2)).toBe(hashBlockReadably(before[0] ?? "", [5, 6]));
    expect(calls).toBe(3);
  });

  test("a block that is not full has no hash", () => {
    expect(() => new BlockChain(hashing, "s", [1, 2, 3]).hashAt(1)).toThrow("full");
  });
});
