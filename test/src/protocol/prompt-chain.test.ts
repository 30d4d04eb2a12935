import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  CHAIN_BLOCKS_MAX,
  chainKeyAt,
  chainLength,
  encodeChain,
  parseChain,
  toChain,
} from "../../../src/protocol/prompt-chain.ts";

const hash = fc.stringMatching(/^[A-Za-z0-9_-]{22}$/);

describe("parseChain()", () => {
  test("reads what encodeChain() wrote", () => {
    fc.assert(
      fc.property(
        fc.array(hash, { maxLength: CHAIN_BLOCKS_MAX }),
        fc.integer({ min: 0, max: 1_000_000 }),
        (hashes, rest) => {
          const bytes = 512 * hashes.length + rest;
          expect(parseChain(encodeChain(hashes, bytes))).toEqual(toChain(hashes, bytes));
        },
      ),
    );
  });

  test.each(["", "512", ":", "a:", "512:abc", "511:AAAAAAAAAAAAAAAAAAAAAA", "9999999999:", "-1:"])(
    "finds no chain in %o",
    (text) => {
      expect(parseChain(text)).toBeUndefined();
    },
  );

  test("takes no more blocks than there may be", () => {
    const hashes = Array.from({ length: CHAIN_BLOCKS_MAX + 1 }, () => "A".repeat(22));
    expect(parseChain(encodeChain(hashes, 1_000_000))).toBeUndefined();
    expect(parseChain(encodeChain(hashes.slice(1), 1_000_000))).toBeDefined();
  });
});

test("a chain names each beginning by the first characters of its hash", () => {
  const chain = toChain(["a".repeat(22), "b".repeat(22)], 2048);
  expect(chainLength(chain)).toBe(2);
  expect([0, 1].map((index) => chainKeyAt(chain, index))).toEqual(["aaaaaaaa", "bbbbbbbb"]);
  expect(chain.blockRatio).toBe(0.25);
});
