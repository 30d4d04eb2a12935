import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type KvGrowth, kvWaitMs, peakKvTokens } from "../../../src/forecast/kv-peak.ts";
import { seededRandom } from "../../../src/base/random.ts";

const sequences = fc.array(
  fc.record({ usedTokens: fc.nat(500), leftTokens: fc.integer({ min: 1, max: 200 }) }),
  { maxLength: 12 },
);

describe("peakKvTokens", () => {
  test("is the most that a walk token by token sees", () => {
    fc.assert(
      fc.property(sequences, (growths) => {
        let walked = 0;
        for (let token = 0; token <= 200; token++) {
          const there = growths.filter(({ leftTokens }) => leftTokens >= token);
          const held = there.reduce((sum, { usedTokens }) => sum + usedTokens + token, 0);
          walked = Math.max(walked, held);
        }
        expect(peakKvTokens(growths)).toBe(walked);
      }),
    );
  });
});

describe("kvWaitMs", () => {
  const demand = { neededTokens: 1000, freeTokens: 0, tpotMs: 10 };

  test("is nothing where the KV is free, and for ever where it never will be", () => {
    expect(kvWaitMs([], { ...demand, freeTokens: 1000 })).toBe(0);
    expect(kvWaitMs([], demand)).toBe(Infinity);
    expect(kvWaitMs([{ usedTokens: 900, leftTokens: 5 }], demand)).toBe(Infinity);
  });

  test("agrees with the mean over many residents whose lives are as uncertain as outputs are", () => {
    const growths: KvGrowth[] = Array.from({ length: 100 }, () => ({
      usedTokens: 1000,
      leftTokens: 200,
    }));
    const random = seededRandom(5);
    let sum = 0;
    const runs = 2000;
    for (let run = 0; run < runs; run++) {
      const ends = growths.map(({ leftTokens }) => -leftTokens * Math.log(1 - random()));
      ends.sort((a, b) => a - b);
      // Until 5 of 100 have ended; what the others grow meanwhile is another sequence's worth.
      sum += ends[5] ?? 0;
    }
    const waitMs = kvWaitMs(growths, { ...demand, neededTokens: 5000 });
    expect(waitMs / 10 / (sum / runs)).toBeGreaterThan(0.8);
    expect(waitMs / 10 / (sum / runs)).toBeLessThan(1.25);
  });

  test("grows with what is missing", () => {
    fc.assert(
      fc.property(sequences, fc.nat(1000), fc.nat(1000), (growths, needed, more) => {
        const wait = (neededTokens: number) => kvWaitMs(growths, { ...demand, neededTokens });
        // Both are searched to within a twentieth.
        expect(wait(needed + more) * 1.06 + 1).toBeGreaterThanOrEqual(wait(needed));
      }),
    );
  });
});
