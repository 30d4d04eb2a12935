import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type KvGrowth, peakBlocks } from "../../../gpu-backend/engine/kv-peak.ts";

/** The definition: step by step, until the last one has ended. */
function walkToPeak(sequences: readonly KvGrowth[], blockTokens: number): number {
  let peak = 0;
  const stepsMax = Math.max(1, ...sequences.map(({ leftTokens }) => leftTokens));
  for (let step = 0; step < stepsMax; step++) {
    const alive = sequences.filter(({ leftTokens }) => step === 0 || leftTokens > step);
    const shared = new Set(alive.flatMap(({ blocks }) => blocks));
    const grown = alive.map(({ blocks, knownTokens }) =>
      Math.max(0, Math.ceil((knownTokens + step) / blockTokens) - blocks.length),
    );
    peak = Math.max(
      peak,
      grown.reduce((sum, blocks) => sum + blocks, shared.size),
    );
  }
  return peak;
}

describe("peakBlocks", () => {
  test("of sequences that end one after the other is reached when one of them ends", () => {
    const growths = [
      { blocks: [0, 1], knownTokens: 8, leftTokens: 5 },
      { blocks: [2], knownTokens: 4, leftTokens: 1 },
    ];
    // At the end of the short one 3 blocks, at the end of the long one, alone by then, also 3.
    expect(peakBlocks(growths, 4)).toBe(3);
    expect(peakBlocks([...growths, { blocks: [], knownTokens: 4, leftTokens: 2 }], 4)).toBe(5);
  });

  test("counts a shared block once", () => {
    const growth = { blocks: [0, 1, 2], knownTokens: 12, leftTokens: 1 };
    expect(peakBlocks([growth, growth, growth], 4)).toBe(3);
  });

  test("is what a walk through all steps finds", () => {
    const growth = fc.record({
      blocks: fc.uniqueArray(fc.nat({ max: 8 }), { maxLength: 4 }),
      extraTokens: fc.nat({ max: 6 }),
      leftTokens: fc.integer({ min: 1, max: 20 }),
    });
    const blockTokens = fc.integer({ min: 1, max: 5 });
    fc.assert(
      fc.property(fc.array(growth, { maxLength: 6 }), blockTokens, (growths, size) => {
        const sequences = growths.map(({ blocks, extraTokens, leftTokens }) => ({
          blocks,
          // What is held is known; a little more may wait for its block.
          knownTokens: blocks.length * size + extraTokens,
          leftTokens,
        }));
        expect(peakBlocks(sequences, size)).toBe(walkToPeak(sequences, size));
      }),
    );
  });
});
