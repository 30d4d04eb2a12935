import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { keyedRandom, threefry2x32 } from "../../../gpu-backend/engine/keyed-random.ts";

describe("threefry2x32()", () => {
  test("gives the published answers of Random123", () => {
    expect(threefry2x32([0, 0], [0, 0])).toEqual([0x6b200159, 0x99ba4efe]);
    const ones = 0xffffffff;
    expect(threefry2x32([ones, ones], [ones, ones])).toEqual([0x1cb996fc, 0xbb002be7]);
    expect(threefry2x32([0x13198a2e, 0x03707344], [0x243f6a88, 0x85a308d3])).toEqual([
      0xc4923a9c, 0x483df7a0,
    ]);
  });
});

describe("keyedRandom()", () => {
  test("is the same for the same seed and index, and in [0, 1)", () => {
    fc.assert(
      fc.property(fc.maxSafeInteger(), fc.nat(), (seed, index) => {
        const drawn = keyedRandom(seed, index);
        expect(drawn).toBe(keyedRandom(seed, index));
        expect(drawn).toBeGreaterThanOrEqual(0);
        expect(drawn).toBeLessThan(1);
      }),
    );
  });

  test("differs for seeds that differ in any one of 63 bits, and by sign", () => {
    const powers = Array.from({ length: 63 }, (_, bit) => 2 ** bit);
    // Two neighbours that a double can still tell apart, at the end of the range of an int64.
    const largest = [2 ** 63 - 1024, 2 ** 63 - 2048];
    const seeds = [0, ...powers, ...largest, ...[...powers, ...largest, 2 ** 63].map((s) => -s)];
    expect(new Set(seeds.map((seed) => keyedRandom(seed, 3))).size).toBe(seeds.length);
  });

  test("is uniform over the indexes of one seed and over the seeds of one index", () => {
    const draws = 20_000;
    for (const draw of [(n: number) => keyedRandom(42, n), (n: number) => keyedRandom(n, 0)]) {
      const counts = Array.from({ length: 10 }, () => 0);
      for (let n = 0; n < draws; n++) {
        const bucket = Math.floor(draw(n) * 10);
        counts[bucket] = (counts[bucket] ?? 0) + 1;
      }
      const expected = draws / 10;
      const chiSquare = counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
      // The 99.9 % quantile for nine degrees of freedom; the draws are fixed, so this never flickers.
      expect(chiSquare).toBeLessThan(27.9);
    }
  });
});
