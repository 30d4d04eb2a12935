import { describe, expect, test } from "vitest";
import { hashText, mix32 } from "../../../src/base/hash.ts";

describe("hashText", () => {
  test("is FNV-1a over two bytes a code unit", () => {
    expect(hashText("")).toBe(0x811c9dc5);
    expect(hashText("a")).toBe(fnv1a([0x61, 0x00]));
    expect(hashText("é€")).toBe(fnv1a([0xe9, 0x00, 0xac, 0x20]));
  });

  test("tells ten thousand like names apart", () => {
    const hashes = Array.from({ length: 10_000 }, (_, i) => hashText(`http://10.0.0.${i}:8000`));
    expect(new Set(hashes).size).toBe(10_000);
  });
});

describe("mix32", () => {
  test("changes about half of the output's bits with any one of the input's", () => {
    for (let bit = 0; bit < 32; bit++) {
      let changed = 0;
      for (let i = 0; i < 500; i++) {
        const input = Math.imul(i, 0x9e3779b1);
        changed += bitsOf(mix32(input) ^ mix32(input ^ (1 << bit)));
      }
      expect(changed / 500).toBeGreaterThan(14);
      expect(changed / 500).toBeLessThan(18);
    }
  });
});

function fnv1a(bytes: readonly number[]): number {
  let hash = 0x811c9dc5n;
  for (const byte of bytes) hash = ((hash ^ BigInt(byte)) * 0x01000193n) & 0xffffffffn;
  return Number(hash);
}

function bitsOf(value: number): number {
  return (value >>> 0).toString(2).replaceAll("0", "").length;
}
