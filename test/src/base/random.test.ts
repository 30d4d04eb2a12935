import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { copyState } from "../../../src/base/plain-state.ts";
import { randomOf, seededRandom } from "../../../src/base/random.ts";

const take = (random: () => number, count: number) => Array.from({ length: count }, random);

describe("seededRandom()", () => {
  test("one seed gives one sequence, another seed another", () => {
    expect(take(seededRandom(7), 20)).toEqual(take(seededRandom(7), 20));
    expect(take(seededRandom(7), 20)).not.toEqual(take(seededRandom(8), 20));
  });

  test("every number is in [0, 1), whatever the seed", () => {
    fc.assert(
      fc.property(fc.integer(), (seed) => {
        for (const number of take(seededRandom(seed), 50)) {
          expect(number).toBeGreaterThanOrEqual(0);
          expect(number).toBeLessThan(1);
        }
      }),
    );
  });

  test("the numbers are spread evenly over ten tenths", () => {
    const counts = Array.from({ length: 10 }, () => 0);
    for (const number of take(seededRandom(1), 100_000)) {
      const tenth = Math.floor(number * 10);
      counts[tenth] = (counts[tenth] ?? 0) + 1;
    }
    // 99.9 % of chi-squared with nine degrees of freedom.
    const chiSquared = counts.reduce((sum, count) => sum + (count - 10_000) ** 2 / 10_000, 0);
    expect(chiSquared).toBeLessThan(27.9);
  });
});

describe("randomOf()", () => {
  test("goes on from a copied state as the original does", () => {
    const state = { value: 42 };
    const original = randomOf(state);
    take(original, 10);
    const revived = randomOf(copyState(state));
    expect(take(revived, 10)).toEqual(take(original, 10));
  });
});
