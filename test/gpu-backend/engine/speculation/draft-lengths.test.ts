import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  draftLengths,
  type Guessed,
} from "../../../../gpu-backend/engine/speculation/draft-lengths.ts";
import { StepModel } from "../../../../src/step-cost/step-model.ts";

/** A step that costs as much to begin with as ten tokens do. */
const forecast = new StepModel({
  fixedMs: 1,
  tokenMs: 0.1,
  attendedPairMs: 0,
  sequenceMs: 0,
  kvTokenMs: 0,
});

function aGuessed(overrides: Partial<Guessed> = {}): Guessed {
  return { computedTokens: 100, guessTokens: 8, acceptanceRatio: 0.9, isOn: true, ...overrides };
}

const lengthsOf = (count: number, overrides: Partial<Guessed>) =>
  draftLengths(
    Array.from({ length: count }, () => aGuessed(overrides)),
    forecast,
  );

describe("draftLengths", () => {
  test("a sure guess is verified where a step costs much to begin with", () => {
    expect(lengthsOf(1, {})).toEqual([8]);
    expect(lengthsOf(1, { acceptanceRatio: 0.5 })).toEqual([2]);
  });

  test("none is verified where a token costs what it is worth", () => {
    const bare = new StepModel({
      fixedMs: 0,
      tokenMs: 0.1,
      attendedPairMs: 0,
      sequenceMs: 0,
      kvTokenMs: 0,
    });
    expect(draftLengths([aGuessed({ acceptanceRatio: 0.99 })], bare)).toEqual([0]);
  });

  test("the larger the batch, the fewer guesses pay, in the end none", () => {
    const totals = [1, 2, 4, 8, 16, 64].map(
      (count) => lengthsOf(count, { acceptanceRatio: 0.7 })[0],
    );
    expect(totals).toEqual(totals.toSorted((a = 0, b = 0) => b - a));
    expect(totals[0]).toBeGreaterThan(2);
    expect(totals.at(-1)).toBe(0);
  });

  test("who is believed more gets more, and who has nothing guessed gets nothing", () => {
    const [sure = 0, unsure = 0, none] = draftLengths(
      [
        aGuessed({ acceptanceRatio: 0.95 }),
        aGuessed({ acceptanceRatio: 0.5 }),
        aGuessed({ guessTokens: 0 }),
      ],
      forecast,
    );
    expect(sure).toBeGreaterThan(unsure);
    expect(none).toBe(0);
  });

  test("what barely pays goes on, but does not begin", () => {
    // One guess at 0.093 is worth 1.02 times its cost at batch 1.
    expect(lengthsOf(1, { acceptanceRatio: 0.093, isOn: true })).toEqual([1]);
    expect(lengthsOf(1, { acceptanceRatio: 0.093, isOn: false })).toEqual([0]);
  });

  test("no other choice of lengths brings more tokens in a time", () => {
    const sequence = fc.record({
      computedTokens: fc.constant(100),
      guessTokens: fc.nat(3),
      acceptanceRatio: fc.double({ min: 0.05, max: 0.99, noNaN: true }),
      isOn: fc.constant(true),
    });
    const model = fc.record({
      fixedMs: fc.double({ min: 0, max: 3, noNaN: true }),
      tokenMs: fc.double({ min: 0.01, max: 1, noNaN: true }),
      attendedPairMs: fc.constant(0),
      sequenceMs: fc.double({ min: 0, max: 0.5, noNaN: true }),
      kvTokenMs: fc.constant(0),
    });
    fc.assert(
      fc.property(fc.array(sequence, { minLength: 1, maxLength: 4 }), model, (guessed, prior) => {
        const lengths = draftLengths(guessed, new StepModel(prior));
        const rateOf = (counts: readonly number[]) => {
          const verified = counts.reduce((sum, count) => sum + count, 0);
          const tokens = counts.reduce(
            (sum, count, index) => sum + expectedOf(guessed[index]?.acceptanceRatio ?? 0, count),
            0,
          );
          const { fixedMs, tokenMs, sequenceMs } = prior;
          return (
            tokens / (fixedMs + tokenMs * (guessed.length + verified) + sequenceMs * guessed.length)
          );
        };
        const all = combinations(guessed.map(({ guessTokens }) => guessTokens));
        const best = Math.max(...all.map(rateOf));
        expect(rateOf(lengths)).toBeGreaterThan(best * (1 - 1e-9));
      }),
    );
  });
});

/** One token, and of the guesses those that are expected to hold. */
function expectedOf(ratio: number, guesses: number): number {
  return Array.from({ length: guesses }, (_, index) => ratio ** (index + 1)).reduce(
    (a, b) => a + b,
    1,
  );
}

function combinations([limit, ...others]: readonly number[]): number[][] {
  if (limit === undefined) return [[]];
  const rest = combinations(others);
  return Array.from({ length: limit + 1 }, (_, count) =>
    rest.map((each) => [count, ...each]),
  ).flat();
}
