import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { BlockChain } from "../../../../gpu-backend/engine/kv-cache/block-chain.ts";
import type { KvCacheOptions } from "../../../../gpu-backend/engine/kv-cache/kv-admission.ts";
import { KvCache } from "../../../../gpu-backend/engine/kv-cache/kv-cache.ts";
import { hashBlockReadably, tokenRange } from "../../../support/engine-builders.ts";

const aKvCache = (overrides: Partial<KvCacheOptions> = {}) =>
  new KvCache({ blockCount: 10, blockTokens: 16, prefixCache: true, ...overrides });

const chainOf = (tokens: readonly number[], blockTokens = 16, salt = "s") =>
  new BlockChain({ hashBlock: hashBlockReadably, blockTokens, modelRevision: "m" }, salt, tokens);

/** Admits a sequence with these tokens. Returns its hit. */
function admit(kvCache: KvCache, id: string, tokens: readonly number[], salt = "s") {
  const hitTokens = kvCache.admit({
    id,
    chain: chainOf(tokens, kvCache.blockTokens, salt),
    knownTokens: tokens.length,
    reservedBlocks: 0,
    tenant: "t",
    readsCache: true,
    isResumed: false,
  });
  kvCache.checkInvariants();
  return hitTokens;
}

/** Admits and computes a sequence. */
function compute(kvCache: KvCache, id: string, tokens: readonly number[], salt = "s"): void {
  admit(kvCache, id, tokens, salt);
  kvCache.confirm(id, tokens.length);
  kvCache.checkInvariants();
}

const tableOf = (kvCache: KvCache, id: string, tokens: number) => [
  ...kvCache.blockTable(id, tokens),
];

describe("KvCache", () => {
  test("a prompt takes the first free blocks, and all of them at once", () => {
    const kvCache = aKvCache();
    expect(admit(kvCache, "a", tokenRange(55))).toBe(0);
    expect(tableOf(kvCache, "a", 55)).toEqual([0, 1, 2, 3]);
    expect(tableOf(kvCache, "a", 16)).toEqual([0]);
    expect(kvCache.usedBlocks).toBe(4);
  });

  test("a prompt with a computed prefix shares its full blocks and takes new ones for the rest", () => {
    const kvCache = aKvCache();
    compute(kvCache, "a", tokenRange(55));
    expect(admit(kvCache, "b", [...tokenRange(48), ...tokenRange(5, 5000)])).toBe(48);
    expect(tableOf(kvCache, "b", 53)).toEqual([0, 1, 2, 4]);
    expect(kvCache.usedBlocks).toBe(5);
  });

  test("blocks are hit only once they are computed", () => {
    const kvCache = aKvCache();
    admit(kvCache, "a", tokenRange(55));
    expect(kvCache.hitTokens(chainOf(tokenRange(55)), 55)).toBe(0);
    kvCache.confirm("a", 33);
    expect(kvCache.hitTokens(chainOf(tokenRange(55)), 55)).toBe(32);
  });

  test("a full hit leaves the last token to compute, and with it its whole block", () => {
    const kvCache = aKvCache();
    compute(kvCache, "a", tokenRange(48));
    expect(admit(kvCache, "b", tokenRange(48))).toBe(32);
    expect(admit(kvCache, "c", tokenRange(49))).toBe(48);
  });

  test("a sequence is hit by its next turn up to its last full block", () => {
    const kvCache = aKvCache({ blockCount: 40 });
    compute(kvCache, "turn 1", tokenRange(200));
    kvCache.release("turn 1");
    expect(admit(kvCache, "turn 2", tokenRange(300))).toBe(192);
  });

  test("partial blocks are evicted first, then the tails of the sequences freed first", () => {
    const kvCache = aKvCache();
    compute(kvCache, "a", tokenRange(87));
    compute(kvCache, "b", tokenRange(48, 5000));
    kvCache.release("a");
    expect(kvCache.evictionOrder()).toEqual([5, 9, 4, 3, 2, 1, 0]);
    kvCache.release("b");
    expect(kvCache.evictionOrder()).toEqual([5, 9, 4, 3, 2, 1, 0, 8, 7, 6]);
    kvCache.checkInvariants();
  });

  test("a growing sequence takes a block when the last is full, and only full ones are hit", () => {
    const kvCache = aKvCache();
    const tokens = tokenRange(55);
    const chain = chainOf(tokens);
    kvCache.admit({
      id: "a",
      chain,
      knownTokens: 55,
      reservedBlocks: 0,
      tenant: "t",
      readsCache: true,
      isResumed: false,
    });
    kvCache.confirm("a", 55);
    tokens.push(...tokenRange(4, 5000));
    expect(kvCache.extend("a", 59)).toBe(true);
    expect(kvCache.usedBlocks).toBe(4);
    tokens.push(...tokenRange(19, 6000));
    expect(kvCache.extend("a", 78)).toBe(true);
    expect(kvCache.usedBlocks).toBe(5);
    expect(kvCache.hitTokens(chain, 78)).toBe(48);
    kvCache.confirm("a", 78);
    expect(kvCache.hitTokens(chain, 78)).toBe(64);
  });

  test("a free block that is hit is not handed out as a new one in the same call", () => {
    const kvCache = aKvCache({ blockCount: 4 });
    compute(kvCache, "a", tokenRange(48));
    kvCache.release("a");
    expect(kvCache.evictionOrder()).toEqual([3, 2, 1, 0]);
    expect(admit(kvCache, "b", [...tokenRange(32), ...tokenRange(32, 5000)])).toBe(32);
    expect(tableOf(kvCache, "b", 64)).toEqual([0, 1, 3, 2]);
  });

  test("a block that is handed out anew is no hit any more", () => {
    const kvCache = aKvCache({ blockCount: 2 });
    compute(kvCache, "a", tokenRange(32));
    kvCache.release("a");
    compute(kvCache, "b", tokenRange(15, 5000));
    expect(kvCache.hitTokens(chainOf(tokenRange(33)), 33)).toBe(16);
    compute(kvCache, "c", tokenRange(15, 7000));
    expect(kvCache.hitTokens(chainOf(tokenRange(33)), 33)).toBe(0);
  });

  test("two sequences that compute the same prefix at once keep two copies, either of which is hit", () => {
    const kvCache = aKvCache({ blockCount: 5 });
    admit(kvCache, "a", tokenRange(20));
    admit(kvCache, "b", tokenRange(20));
    kvCache.confirm("a", 20);
    kvCache.confirm("b", 20);
    kvCache.checkInvariants();
    kvCache.release("a");
    // Takes the free block of no one, a's partial one and a's copy of the prefix.
    admit(kvCache, "c", tokenRange(48, 5000));
    expect(admit(kvCache, "d", tokenRange(17))).toBeUndefined();
    kvCache.release("c");
    expect(admit(kvCache, "d", tokenRange(17))).toBe(16);
    expect(tableOf(kvCache, "d", 16)).toEqual(tableOf(kvCache, "b", 16));
  });

  test("an admission that does not fit changes nothing, though its hits lie among the free blocks", () => {
    const kvCache = aKvCache({ blockCount: 4 });
    compute(kvCache, "a", tokenRange(32));
    kvCache.release("a");
    compute(kvCache, "b", tokenRange(16, 5000));
    const before = { order: kvCache.evictionOrder(), statistics: kvCache.statistics };
    // Two hits and two new blocks: three blocks are free, but two of them are the hits.
    expect(admit(kvCache, "c", tokenRange(64))).toBeUndefined();
    expect({ order: kvCache.evictionOrder(), statistics: kvCache.statistics }).toEqual(before);
    expect(admit(kvCache, "c", tokenRange(48))).toBe(32);
  });

  test("an extension that does not fit takes nothing", () => {
    const kvCache = aKvCache({ blockCount: 3 });
    admit(kvCache, "a", tokenRange(16));
    expect(kvCache.extend("a", 64)).toBe(false);
    expect(kvCache.usedBlocks).toBe(1);
    expect(kvCache.extend("a", 48)).toBe(true);
  });

  test("reserved blocks stay free after an admission", () => {
    const kvCache = aKvCache({ blockCount: 4 });
    const admission = {
      id: "a",
      chain: chainOf(tokenRange(48)),
      knownTokens: 48,
      tenant: "t",
      readsCache: true,
      isResumed: false,
    };
    expect(kvCache.admit({ ...admission, reservedBlocks: 2 })).toBeUndefined();
    expect(kvCache.admit({ ...admission, reservedBlocks: 1 })).toBe(0);
  });

  test("sequences of different salts share nothing", () => {
    const kvCache = aKvCache();
    compute(kvCache, "a", tokenRange(40), "tenant a");
    expect(admit(kvCache, "b", tokenRange(40), "tenant b")).toBe(0);
    expect(admit(kvCache, "c", tokenRange(40), "tenant a")).toBe(32);
  });

  test("what a discarded sequence computed is never hit, nor what it shared", () => {
    const kvCache = aKvCache();
    compute(kvCache, "a", tokenRange(40));
    compute(kvCache, "b", tokenRange(70));
    kvCache.discard("b");
    kvCache.checkInvariants();
    expect(kvCache.hitTokens(chainOf(tokenRange(80)), 80)).toBe(0);
    kvCache.release("a");
    kvCache.checkInvariants();
    expect(kvCache.usedBlocks).toBe(0);
  });

  test("reset() forgets all prefixes, but only while nothing is held", () => {
    const kvCache = aKvCache();
    compute(kvCache, "a", tokenRange(40));
    expect(kvCache.reset()).toBe(false);
    expect(kvCache.hitTokens(chainOf(tokenRange(40)), 40)).toBe(32);
    kvCache.release("a");
    expect(kvCache.reset()).toBe(true);
    expect(kvCache.hitTokens(chainOf(tokenRange(40)), 40)).toBe(0);
    kvCache.checkInvariants();
  });

  test("who does not read the cache hits and counts nothing, but what it computes is hit by others", () => {
    const kvCache = aKvCache();
    const tokens = tokenRange(40);
    compute(kvCache, "a", tokens);
    const chain = chainOf(tokens);
    const reader = { chain, knownTokens: 40, reservedBlocks: 0, isResumed: false };
    expect(kvCache.admit({ ...reader, id: "b", tenant: "t", readsCache: false })).toBe(0);
    kvCache.confirm("b", 40);
    expect(kvCache.statistics).toMatchObject({ queriedTokens: 40, hitTokens: 0 });
    kvCache.discard("a");
    expect(kvCache.admit({ ...reader, id: "c", tenant: "t", readsCache: true })).toBe(32);
    kvCache.checkInvariants();
  });

  test("hits are counted at admissions only, and those of resumed sequences apart", () => {
    const kvCache = aKvCache({ blockCount: 4 });
    const tokens = tokenRange(40);
    const admission = {
      chain: chainOf(tokens),
      knownTokens: 40,
      reservedBlocks: 0,
      tenant: "t",
      readsCache: true,
    };
    compute(kvCache, "a", tokens);
    kvCache.hitTokens(chainOf(tokens), 40);
    const crowded = { ...admission, id: "b", reservedBlocks: 4, isResumed: false };
    expect(kvCache.admit(crowded)).toBeUndefined();
    expect(kvCache.statistics).toMatchObject({ queriedTokens: 40, hitTokens: 0 });
    kvCache.release("a");
    kvCache.admit({ ...admission, id: "a", isResumed: true });
    expect(kvCache.statistics).toEqual({
      queriedTokens: 40,
      hitTokens: 0,
      loadedTokens: 0,
      resumedQueriedTokens: 40,
      resumedHitTokens: 32,
    });
  });

  test("without a prefix cache nothing is hit, hashed or counted", () => {
    const kvCache = aKvCache({ prefixCache: false });
    const chain = new BlockChain(
      {
        hashBlock: () => {
          throw new Error("Hashed");
        },
        blockTokens: 16,
        modelRevision: "m",
      },
      "s",
      tokenRange(40),
    );
    const admission = {
      chain,
      knownTokens: 40,
      reservedBlocks: 0,
      tenant: "t",
      readsCache: true,
      isResumed: false,
    };
    expect(kvCache.admit({ ...admission, id: "a" })).toBe(0);
    kvCache.confirm("a", 40);
    expect(kvCache.hitTokens(chain, 40)).toBe(0);
    expect(kvCache.admit({ ...admission, id: "b" })).toBe(0);
    expect(kvCache.statistics.queriedTokens).toBe(0);
    kvCache.release("a");
    expect(kvCache.evictionOrder()[0]).toBe(0);
    kvCache.checkInvariants();
  });
});

describe("KvCache against a dictionary", () => {
  const BLOCK_TOKENS = 2;
  // Mostly zeros, so that prompts have prefixes in common.
  const token = fc.oneof({ arbitrary: fc.constant(0), weight: 6 }, fc.constant(1));
  const operation = fc.record({
    kind: fc.constantFrom("admit", "admit", "compute", "compute", "extend", "release", "discard"),
    id: fc.constantFrom("a", "b", "c", "d"),
    tokens: fc.array(token, { minLength: 1, maxLength: 9, size: "max" }),
    count: fc.integer({ min: 1, max: 8 }),
    salt: fc.constantFrom("s", "s", "s", "t"),
  });

  interface Expected {
    readonly salt: string;
    readonly tokens: number[];
    computedTokens: number;
  }

  /** The first `blocks` blocks of a sequence, by all that distinguishes them. */
  const prefixOf = ({ salt, tokens }: Expected, blocks: number) =>
    `${salt}|${tokens.slice(0, blocks * BLOCK_TOKENS).join("")}`;

  /** The cache as a dictionary: which prefix each block holds, if it is full and was computed. */
  class Dictionary {
    readonly kvCache = new KvCache({
      blockCount: 12,
      blockTokens: BLOCK_TOKENS,
      prefixCache: true,
    });
    readonly sequences = new Map<string, Expected>();
    readonly #prefixByBlock = new Map<number, string>();

    admit(id: string, tokens: number[], salt: string): void {
      const expected = { salt, tokens, computedTokens: 0 };
      const cached = new Set(this.#prefixByBlock.values());
      const hitBlocksMax = Math.floor((tokens.length - 1) / BLOCK_TOKENS);
      let hitBlocks = 0;
      while (hitBlocks < hitBlocksMax && cached.has(prefixOf(expected, hitBlocks + 1))) hitBlocks++;
      const hitTokens = admit(this.kvCache, id, tokens, salt);
      if (hitTokens === undefined) return;
      assert.equal(hitTokens, hitBlocks * BLOCK_TOKENS, "The longest cached prefix is hit");
      const table = tableOf(this.kvCache, id, tokens.length);
      for (const [index, block] of table.slice(0, hitBlocks).entries()) {
        assert.equal(this.#prefixByBlock.get(block), prefixOf(expected, index + 1));
      }
      this.#overwrite(table.slice(hitBlocks));
      this.sequences.set(id, { ...expected, computedTokens: hitTokens });
    }

    compute(id: string, expected: Expected, count: number): void {
      const end = Math.min(expected.tokens.length, expected.computedTokens + count);
      const table = tableOf(this.kvCache, id, end);
      const fullBlocks = Math.floor(end / BLOCK_TOKENS);
      const computedBlocks = Math.floor(expected.computedTokens / BLOCK_TOKENS);
      for (const [index, block] of table.slice(0, fullBlocks).entries()) {
        if (index >= computedBlocks) this.#prefixByBlock.set(block, prefixOf(expected, index + 1));
      }
      expected.computedTokens = end;
      this.kvCache.confirm(id, end);
    }

    extend(id: string, expected: Expected, newTokens: number[]): void {
      const heldBlocks = tableOf(this.kvCache, id, expected.tokens.length).length;
      const tokens = expected.tokens.length + newTokens.length;
      if (!this.kvCache.extend(id, tokens)) return;
      expected.tokens.push(...newTokens);
      this.#overwrite(tableOf(this.kvCache, id, tokens).slice(heldBlocks));
    }

    discard(id: string, expected: Expected): void {
      this.#overwrite(tableOf(this.kvCache, id, expected.tokens.length));
      this.kvCache.discard(id);
      this.sequences.delete(id);
    }

    release(id: string): void {
      this.kvCache.release(id);
      this.sequences.delete(id);
    }

    #overwrite(blocks: number[]): void {
      for (const block of blocks) this.#prefixByBlock.delete(block);
    }
  }

  test("an admission hits the longest computed prefix whose blocks were not overwritten since", () => {
    let hitTokens = 0;
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 100, size: "max" }), (operations) => {
        const dictionary = new Dictionary();
        const { kvCache, sequences } = dictionary;
        for (const { kind, id, tokens, count, salt } of operations) {
          const expected = sequences.get(id);
          if (expected === undefined) {
            if (kind === "admit") dictionary.admit(id, [...tokens], salt);
            continue;
          }
          if (kind === "compute") dictionary.compute(id, expected, count);
          if (kind === "extend") dictionary.extend(id, expected, tokens.slice(0, count));
          if (kind === "release") dictionary.release(id);
          if (kind === "discard") dictionary.discard(id, expected);
          kvCache.checkInvariants();
        }
        hitTokens += kvCache.statistics.hitTokens;
        for (const id of sequences.keys()) kvCache.release(id);
        kvCache.checkInvariants();
        expect(kvCache.usedBlocks).toBe(0);
      }),
      { numRuns: 500 },
    );
    // Hits are what is at stake: runs without any would prove nothing.
    expect(hitTokens).toBeGreaterThan(300);
  });
});
