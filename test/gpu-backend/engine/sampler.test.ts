import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Sampling } from "../../../gpu-backend/engine/generate-request.ts";
import { keyedRandom } from "../../../gpu-backend/engine/keyed-random.ts";
import { InvalidLogitsError } from "../../../gpu-backend/engine/log-probability.ts";
import { NothingAllowedError, Sampler } from "../../../gpu-backend/engine/sampler.ts";
import type { TokenChoice } from "../../../gpu-backend/engine/token-choice.ts";
import { TokenHistory } from "../../../gpu-backend/engine/token-history.ts";
import { seededRandom } from "../../../src/base/random.ts";
import { aSampling, aTokenChoice } from "../../support/engine-builders.ts";
import { SumConstraint } from "../../support/sum-constraint.ts";

const sampling = (overrides: Partial<Sampling> = {}) => aSampling({ temperature: 1, ...overrides });

const choose = (logits: Float32Array, choice: TokenChoice) =>
  new Sampler(logits.length).choose(logits, choice);

function sampleToken(logits: Float32Array, settings: Sampling, outputIndex: number): number {
  return choose(logits, aTokenChoice({ sampling: settings, outputIndex })).tokenId;
}

/** How often each token is drawn at output indexes 0, 1, 2 … */
function drawMany(logits: Float32Array, settings: Sampling, draws: number): number[] {
  const counts = Array.from(logits, () => 0);
  const sampler = new Sampler(logits.length);
  const choice = aTokenChoice({ sampling: settings });
  for (let index = 0; index < draws; index++) {
    const token = sampler.choose(logits, { ...choice, outputIndex: index }).tokenId;
    counts[token] = (counts[token] ?? 0) + 1;
  }
  return counts;
}

/** The tokens that can be drawn, found by drawing often. */
function drawnTokens(logits: number[], settings: Partial<Sampling>): number[] {
  const counts = drawMany(Float32Array.from(logits), sampling(settings), 2000);
  return counts.flatMap((count, token) => (count > 0 ? [token] : []));
}

/** The probabilities by the definition: sort all, cut, normalise. */
function probabilitiesOf(logits: number[], settings: Sampling): number[] {
  const { temperature, topK, topP, minP } = settings;
  const best = Math.max(...logits);
  const weights = logits.map((logit) => Math.exp((logit - best) / temperature));
  const kth =
    logits.toSorted((a, b) => b - a)[topK > 0 ? topK - 1 : logits.length - 1] ?? -Infinity;
  const afterK = weights.map((weight, token) => ((logits[token] ?? 0) >= kth ? weight : 0));
  const total = afterK.reduce((sum, weight) => sum + weight, 0);
  let passed = 0;
  const last = afterK
    .toSorted((a, b) => b - a)
    .find((weight) => {
      passed += weight;
      return passed >= topP * total;
    });
  const afterP = afterK.map((weight) => (topP === 1 || weight >= (last ?? 0) ? weight : 0));
  const kept = afterP.map((weight) => (weight >= minP ? weight : 0));
  const keptTotal = kept.reduce((sum, weight) => sum + weight, 0);
  return kept.map((weight) => weight / keptTotal);
}

/** The token at the drawn fraction of what is kept, by sorting the whole vocabulary. */
function tokenByDefinition(logits: readonly number[], settings: Sampling, drawn: number): number {
  const probabilities = probabilitiesOf([...logits], settings);
  let passed = 0;
  return probabilities.findIndex((probability) => {
    passed += probability;
    return passed > drawn;
  });
}

// Cuts are looked for among the best tokens first, and farther on only where those are too few.
test("a draw is what sorting the whole vocabulary gives, however far probabilities are spread", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 2, max: 300 }),
      fc.constantFrom(0.1, 2, 8, 40),
      // So many tokens stand out, and all others are level, deep below them but many.
      fc.option(
        fc.record({ peaks: fc.constantFrom(1, 6, 39), depth: fc.integer({ min: 1, max: 9 }) }),
      ),
      fc.record({
        topP: fc.constantFrom(0.05, 0.5, 0.9, 0.99, 0.999_999, 1),
        topK: fc.constantFrom(0, 1, 2, 7, 40, 200),
        temperature: fc.constantFrom(0.2, 1, 3),
        seed: fc.nat(),
      }),
      (count, spread, plateau, changes) => {
        const random = seededRandom(changes.seed);
        const logits = Array.from({ length: count }, (_, token) => {
          if (plateau === null) return Math.fround(spread * random());
          return token < plateau.peaks ? 0 : -plateau.depth * changes.temperature;
        }).map(Math.fround);
        const settings = sampling(changes);
        const expected = tokenByDefinition(logits, settings, keyedRandom(changes.seed, 3));
        expect(sampleToken(Float32Array.from(logits), settings, 3)).toBe(expected);
      },
    ),
    { numRuns: 2000 },
  );
});

describe("greedy", () => {
  test("takes the largest logit, and the lowest id among equals", () => {
    const greedy = sampling({ temperature: 0 });
    expect(sampleToken(Float32Array.of(-3, -1, -2), greedy, 0)).toBe(1);
    expect(sampleToken(Float32Array.of(1, 4, 4, 4), greedy, 0)).toBe(1);
  });

  test("is what a temperature close to zero means, whatever the rest says", () => {
    const cold = sampling({ temperature: 9e-6, topP: 0.5, topK: 3 });
    for (let index = 0; index < 50; index++) {
      expect(sampleToken(Float32Array.of(2, 2, 1.999), { ...cold, seed: index }, index)).toBe(0);
    }
  });
});

describe("filters", () => {
  test("top-k keeps k tokens, and all that tie with the k-th", () => {
    expect(drawnTokens([1, 3, 2, 0], { topK: 2 })).toEqual([1, 2]);
    expect(drawnTokens([1, 3, 1, 1, 0.5], { topK: 2 })).toEqual([0, 1, 2, 3]);
    expect(drawnTokens([1, 1.5, 1], { topK: 99 })).toEqual([0, 1, 2]);
    expect(drawnTokens([1, 1.5, 1], { topK: 1 })).toEqual([1]);
  });

  test("top-p keeps the fewest tokens that make up p, and all that tie with the last", () => {
    const logits = [0.5, 0.25, 0.15, 0.1].map(Math.log);
    expect(drawnTokens(logits, { topP: 0.45 })).toEqual([0]);
    expect(drawnTokens(logits, { topP: 0.7 })).toEqual([0, 1]);
    expect(drawnTokens(logits, { topP: 0.8 })).toEqual([0, 1, 2]);
    expect(drawnTokens([0, 0, 0, -9], { topP: 0.1 })).toEqual([0, 1, 2]);
  });

  test("top-p of zero keeps the best token", () => {
    expect(drawnTokens([0, 2, 1], { topP: 0 })).toEqual([1]);
  });

  test("top-p measures what top-k kept", () => {
    // Of the two that top-k keeps the first makes up 0.6; of all five it makes up 0.3.
    const logits = [0.3, 0.2, 0.2 - 1e-3, 0.15, 0.15].map(Math.log);
    expect(drawnTokens(logits, { topK: 2, topP: 0.59 })).toEqual([0]);
    expect(drawnTokens(logits, { topP: 0.59 })).toEqual([0, 1, 2]);
  });

  test("min-p keeps what is at least that share as probable as the best, after temperature", () => {
    const logits = [0.5, 0.26, 0.24, 0.1].map(Math.log);
    expect(drawnTokens(logits, { minP: 0.5 })).toEqual([0, 1]);
    expect(drawnTokens(logits, { minP: 0 })).toEqual([0, 1, 2, 3]);
    expect(drawnTokens(logits, { minP: 0.5, temperature: 2 })).toEqual([0, 1, 2]);
    expect(drawnTokens([0, 1, 1], { minP: 1 })).toEqual([1, 2]);
  });

  test("the strictest of top-k, top-p and min-p decides", () => {
    const logits = [0.4, 0.3, 0.2, 0.1].map(Math.log);
    expect(drawnTokens(logits, { topK: 3, topP: 0.95, minP: 0.7 })).toEqual([0, 1]);
    expect(drawnTokens(logits, { topK: 2, topP: 0.95, minP: 0.1 })).toEqual([0, 1]);
    expect(drawnTokens(logits, { topK: 3, topP: 0.65, minP: 0.1 })).toEqual([0, 1]);
  });

  test("temperature comes before top-p", () => {
    const logits = [0.5, 0.25, 0.15, 0.1].map(Math.log);
    expect(drawnTokens(logits, { temperature: 0.3, topP: 0.8 })).toEqual([0]);
    expect(drawnTokens(logits, { temperature: 5, topP: 0.8 })).toEqual([0, 1, 2, 3]);
  });
});

describe("draws", () => {
  test("depend on seed and output index alone", () => {
    const logits = Float32Array.from({ length: 50 }, (_, token) => Math.sin(token));
    const draw = (seed: number, index: number) => sampleToken(logits, sampling({ seed }), index);
    const first = Array.from({ length: 40 }, (_, index) => draw(5, index));
    const reversed = Array.from({ length: 40 }, (_, index) => draw(5, 39 - index)).toReversed();
    expect(reversed).toEqual(first);
    expect(Array.from({ length: 40 }, (_, index) => draw(6, index))).not.toEqual(first);
  });

  test("follow the probabilities that the definition gives", () => {
    const logits = [0, 1, 2, 3, 2, 1, -4, 2.5];
    const draws = 20_000;
    for (const settings of [
      sampling(),
      sampling({ temperature: 0.5 }),
      sampling({ temperature: 2, topK: 5 }),
      sampling({ topP: 0.9, temperature: 1.5 }),
      sampling({ topK: 4, topP: 0.8 }),
      sampling({ topK: 6, topP: 0.97, minP: 0.2 }),
    ]) {
      const counts = drawMany(Float32Array.from(logits), settings, draws);
      for (const [token, probability] of probabilitiesOf(logits, settings).entries()) {
        const count = counts[token] ?? 0;
        // No deviation is allowed where the probability is 0.
        const deviation = Math.sqrt(draws * probability * (1 - probability));
        expect(Math.abs(count - draws * probability)).toBeLessThanOrEqual(4.5 * deviation);
      }
    }
  });

  test("only ever yield tokens that the definition keeps", () => {
    const logit = fc.integer({ min: -40, max: 40 }).map((tenths) => Math.fround(tenths / 10));
    const settings = fc.record({
      temperature: fc.double({ min: 0.05, max: 3, noNaN: true }),
      topK: fc.nat(12),
      topP: fc.double({ min: 0, max: 1, noNaN: true }),
      minP: fc.double({ min: 0, max: 1, noNaN: true }),
      seed: fc.maxSafeInteger(),
    });
    fc.assert(
      fc.property(
        fc.array(logit, { minLength: 1, maxLength: 30, size: "max" }),
        settings,
        fc.nat(1000),
        (logits, changes, index) => {
          const drawn = sampling(changes);
          const token = sampleToken(Float32Array.from(logits), drawn, index);
          // A p right at a sum may fall either way by rounding; a hair more settles it.
          const topP = Math.min(1, drawn.topP + 1e-9);
          const generous = { ...drawn, topP, minP: drawn.minP * (1 - 1e-9) };
          expect(probabilitiesOf(logits, generous)[token]).toBeGreaterThan(0);
        },
      ),
      { numRuns: 1000 },
    );
  });

  test("a lone token is drawn from a vocabulary of one", () => {
    expect(sampleToken(Float32Array.of(-7), sampling({ topP: 0.5, topK: 1 }), 0)).toBe(0);
  });

  test("survive logits that no exponential can hold", () => {
    const logits = Float32Array.of(3e38, -3e38, 3e38);
    expect([0, 2]).toContain(sampleToken(logits, sampling({ topP: 0.9 }), 1));
  });
});

/** Logits that no two tokens share. */
const wavy = Float32Array.from({ length: 40 }, (_, token) => 3 * Math.sin(token * token));
const range = (count: number) => Array.from({ length: count }, (_, index) => index);

describe("what changes logits", () => {
  test("greedy takes the best of the changed logits", () => {
    const logits = Float32Array.of(3, 2, 1);
    const biased = aSampling({ logitBias: [[2, 5]] });
    expect(choose(logits, aTokenChoice({ sampling: biased })).tokenId).toBe(2);
    expect(choose(logits, aTokenChoice({ forbiddenTokenIds: [0] })).tokenId).toBe(1);
    const repetitive = aSampling({ repetitionPenalty: 2 });
    const history = new TokenHistory(repetitive, [0]);
    expect(choose(logits, aTokenChoice({ sampling: repetitive, history })).tokenId).toBe(1);
  });

  test("top-k, top-p and min-p count what is still allowed", () => {
    const constraint = new SumConstraint({
      vocabularyTokens: 40,
      stopTokenIds: [],
      completeEvery: 1,
    });
    const settings = [
      sampling(),
      sampling({ topK: 3 }),
      sampling({ topP: 0.3 }),
      sampling({ minP: 0.9 }),
      sampling({ topK: 39, temperature: 50 }),
    ];
    for (const drawn of settings) {
      const tokens = range(300).map((outputIndex) => {
        return choose(wavy, aTokenChoice({ sampling: drawn, outputIndex, constraint })).tokenId;
      });
      expect(tokens.filter((token) => token % 3 === 0)).toEqual([]);
      const kept = drawn.topK > 0 ? drawn.topK : wavy.length;
      expect(new Set(tokens).size).toBeLessThanOrEqual(kept);
    }
  });

  test("a sampler keeps nothing of one choice for the next", () => {
    const sampler = new Sampler(wavy.length);
    const plain = aTokenChoice({ sampling: sampling({ topP: 0.9, seed: 4 }) });
    const first = range(20).map((outputIndex) => sampler.choose(wavy, { ...plain, outputIndex }));
    const strict = aTokenChoice({ sampling: sampling({ topK: 2, logitBias: [[7, 99]] }) });
    const again = range(20).map((outputIndex) => {
      sampler.choose(wavy, { ...strict, forbiddenTokenIds: [1, 2, 3], outputIndex });
      return sampler.choose(wavy, { ...plain, outputIndex });
    });
    expect(again).toEqual(first);
  });
});

describe("log probabilities", () => {
  test("are told only if they are asked for", () => {
    const logits = Float32Array.of(1, 3, 2);
    expect(choose(logits, aTokenChoice())).toEqual({ tokenId: 1 });
    expect(choose(logits, aTokenChoice({ logprobsTop: 0 }))).toMatchObject({
      tokenId: 1,
      logprob: { tokenId: 1, top: [] },
    });
  });

  test("are those of the raw logits, whatever the choice is made by", () => {
    const logits = [0.5, 0.25, 0.25].map(Math.log);
    const constraint = {
      allowedTokens: () => Int32Array.of(0b110),
      accept() {},
      acceptOnTrial() {},
      takeBack() {},
      dispose() {},
    };
    const settings = sampling({ temperature: 3, topK: 1, logitBias: [[2, 40]] });
    const chosen = choose(
      Float32Array.from(logits),
      aTokenChoice({ sampling: settings, constraint, logprobsTop: 2 }),
    );
    expect(chosen.tokenId).toBe(2);
    expect(chosen.logprob?.logprob).toBeCloseTo(Math.log(0.25), 6);
    expect(chosen.logprob?.top.map(({ tokenId }) => tokenId)).toEqual([0, 1]);
  });

  test("and asking for them changes no token", () => {
    for (const outputIndex of range(50)) {
      const choice = aTokenChoice({ sampling: sampling({ topP: 0.8 }), outputIndex });
      const { tokenId } = choose(wavy, { ...choice, logprobsTop: 5 });
      expect(tokenId).toBe(choose(wavy, choice).tokenId);
    }
  });
});

describe("InvalidLogitsError", () => {
  test("is thrown for a logit that is not finite, greedy or not, wherever it stands", () => {
    for (const bad of [Number.NaN, Infinity, -Infinity]) {
      for (const temperature of [0, 1]) {
        const logits = Float32Array.of(9, 1, bad);
        expect(() => sampleToken(logits, sampling({ temperature }), 0)).toThrow(InvalidLogitsError);
      }
    }
  });
});

describe("NothingAllowedError", () => {
  test("is thrown where a constraint allows nothing, greedy or not", () => {
    const constraint = {
      allowedTokens: () => Int32Array.of(0),
      accept() {},
      acceptOnTrial() {},
      takeBack() {},
      dispose() {},
    };
    for (const temperature of [0, 1]) {
      const choice = aTokenChoice({ sampling: sampling({ temperature }), constraint });
      expect(() => choose(wavy, choice)).toThrow(NothingAllowedError);
    }
  });
});

test("penalties that send logits to the ends of their range still leave a choice", () => {
  for (const temperature of [0, 0.01, 2]) {
    const settings = sampling({ temperature, topP: 0.9, repetitionPenalty: Number.MIN_VALUE });
    const history = new TokenHistory(settings, [1]);
    const choice = aTokenChoice({ sampling: settings, history });
    expect(choose(Float32Array.of(5, 3, -2), choice).tokenId).toBe(1);
  }
});
