import { expect, test } from "vitest";
import { MemoryTier } from "../../../gpu-backend/kv-tiers/memory-tier.ts";

const BLOCK_BYTES = 4;

function aTier(blocksMax: number): MemoryTier {
  return new MemoryTier({ bytesMax: BLOCK_BYTES * blocksMax + 3, blockBytes: BLOCK_BYTES });
}

function put(tier: MemoryTier, hash: string, byte: number): void {
  tier.put(hash, (bytes) => bytes.fill(byte));
  tier.checkInvariants();
}

test("a block is found again as it was, though the one that made room for it lent its memory", () => {
  const tier = aTier(2);
  for (const [index, hash] of ["a", "b", "c"].entries()) put(tier, hash, index);
  expect(tier.take("a")).toBeUndefined();
  expect([...(tier.take("b") ?? [])]).toEqual([1, 1, 1, 1]);
  expect([...(tier.take("c") ?? [])]).toEqual([2, 2, 2, 2]);
  expect(tier.byteLength).toBe(0);
});

test("the block unused for longest makes room, of a chain the end before the beginning", () => {
  const tier = aTier(3);
  for (const [index, hash] of ["one", "two", "three"].entries()) put(tier, hash, index);
  tier.touch(["one", "two", "nowhere"]);
  put(tier, "a", 4);
  expect(["one", "two", "three"].map((hash) => tier.has(hash))).toEqual([true, true, false]);
  put(tier, "b", 5);
  expect(["one", "two"].map((hash) => tier.has(hash))).toEqual([true, false]);
});

test("a block that is put again counts as used, and keeps what it has", () => {
  const tier = aTier(2);
  put(tier, "a", 1);
  put(tier, "b", 2);
  put(tier, "a", 9);
  put(tier, "c", 3);
  expect(tier.has("b")).toBe(false);
  expect([...(tier.take("a") ?? [])]).toEqual([1, 1, 1, 1]);
});

test("a block that is taken is there no more, and its memory is not lent to another", () => {
  const tier = aTier(2);
  put(tier, "a", 1);
  const bytes = tier.take("a");
  expect(tier.has("a")).toBe(false);
  for (const hash of ["b", "c", "d"]) put(tier, hash, 9);
  expect(bytes).toEqual(new Uint8Array(BLOCK_BYTES).fill(1));
});

test("a tier without room for a block keeps none", () => {
  const tier = aTier(0);
  put(tier, "a", 1);
  expect(tier.byteLength).toBe(0);
});

test("what is cleared is gone", () => {
  const tier = aTier(2);
  put(tier, "a", 1);
  tier.clear();
  expect(tier.take("a")).toBeUndefined();
  expect(tier.byteLength).toBe(0);
});
