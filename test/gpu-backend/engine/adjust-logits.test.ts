import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { adjustLogits, isUnadjusted } from "../../../gpu-backend/engine/adjust-logits.ts";
import type { TokenChoice } from "../../../gpu-backend/engine/token-choice.ts";
import type { TokenConstraint } from "../../../gpu-backend/engine/token-constraint.ts";
import { TokenHistory } from "../../../gpu-backend/engine/token-history.ts";
import { aSampling, aTokenChoice } from "../../support/engine-builders.ts";

function adjusted(logits: readonly number[], choice: Partial<TokenChoice>): number[] {
  const scores = Float64Array.from(logits);
  adjustLogits(scores, aTokenChoice(choice));
  return [...scores];
}

/** Allows these tokens for ever. */
const allowing = (...tokens: number[]): TokenConstraint => ({
  allowedTokens: () => {
    const words = new Int32Array(4);
    for (const token of tokens) words[token >> 5] = (words[token >> 5] ?? 0) | (1 << (token & 31));
    return words;
  },
  accept: () => {},
  acceptOnTrial: () => {},
  takeBack: () => {},
  dispose: () => {},
});

/** A choice under these penalties, after this prompt and output. */
function penalized(
  penalties: Parameters<typeof aSampling>[0],
  text: { readonly prompt: readonly number[]; readonly output: readonly number[] },
): Partial<TokenChoice> {
  const sampling = aSampling(penalties);
  const history = new TokenHistory(sampling, text.prompt);
  for (const token of text.output) history.add(token);
  return { sampling, history };
}

describe("penalties", () => {
  test("repetition divides what is positive and multiplies what is negative, in prompt and output", () => {
    const text = { prompt: [0, 1, 1], output: [2, 2] };
    expect(adjusted([4, -4, 2, 8, -8], penalized({ repetitionPenalty: 2 }, text))).toEqual([
      2, -8, 1, 8, -8,
    ]);
  });

  test("frequency counts occurrences in the output, presence counts the first; the prompt is left out", () => {
    const text = { prompt: [0, 0, 0], output: [1, 2, 2, 2] };
    expect(adjusted([1, 1, 1], penalized({ frequencyPenalty: 0.5 }, text))).toEqual([1, 0.5, -0.5]);
    expect(adjusted([1, 1, 1], penalized({ presencePenalty: 0.5 }, text))).toEqual([1, 0.5, 0.5]);
    const both = penalized({ frequencyPenalty: -1, presencePenalty: 0.25 }, text);
    expect(adjusted([1, 1, 1], both)).toEqual([1, 1.75, 3.75]);
  });

  test("a repetition penalty next to 0 leaves numbers that can be compared", () => {
    const tiny = penalized({ repetitionPenalty: Number.MIN_VALUE }, { prompt: [0, 1], output: [] });
    expect(adjusted([3e38, -3e38, 1], tiny).map(Number.isFinite)).toEqual([true, true, true]);
  });

  test("repetition comes before frequency and presence", () => {
    const settings = { repetitionPenalty: 2, frequencyPenalty: 1, presencePenalty: 1 };
    expect(adjusted([8], penalized(settings, { prompt: [], output: [0, 0] }))).toEqual([1]);
  });

  test("biases come before penalties", () => {
    const choice = penalized(
      { repetitionPenalty: 2, logitBias: [[0, 6]] },
      { prompt: [0], output: [] },
    );
    expect(adjusted([-2, -2], choice)).toEqual([2, -2]);
  });

  test("a history that is kept token by token penalizes as one that is counted at once", () => {
    const tokens = fc.array(fc.nat(7), { maxLength: 40 });
    fc.assert(
      fc.property(tokens, tokens, (prompt, output) => {
        const settings = { repetitionPenalty: 1.5, frequencyPenalty: 0.25, presencePenalty: 0.5 };
        const logits = [3, -3, 2, -2, 1, -1, 0.5, 0];
        const expected = logits.map((logit, token) => {
          const count = output.filter((other) => other === token).length;
          const isSeen = count > 0 || prompt.includes(token);
          const repeated = logit > 0 ? logit / 1.5 : logit * 1.5;
          return (isSeen ? repeated : logit) - 0.25 * count - (count > 0 ? 0.5 : 0);
        });
        const scores = adjusted(logits, penalized(settings, { prompt, output }));
        // To add 0 makes -0 and 0 the same, which they are to a choice.
        expect(scores.map((score) => score + 0)).toEqual(expected.map((score) => score + 0));
      }),
    );
  });
});

describe("what is forbidden", () => {
  test("has no chance, whatever its bias and however often it was said", () => {
    const choice = penalized(
      { logitBias: [[1, 100]], frequencyPenalty: -2 },
      {
        prompt: [],
        output: [1],
      },
    );
    expect(adjusted([0, 0, 0], { ...choice, constraint: allowing(0, 2) })).toEqual([
      0,
      -Infinity,
      0,
    ]);
    expect(adjusted([0, 0, 0], { ...choice, forbiddenTokenIds: [1, 2] })).toEqual([
      0,
      -Infinity,
      -Infinity,
    ]);
  });

  test("is told by one bit a token, beyond the first word too", () => {
    const scores = adjusted(
      Array.from({ length: 70 }, () => 1),
      { constraint: allowing(0, 31, 32, 69) },
    );
    expect(scores.flatMap((score, token) => (score === 1 ? [token] : []))).toEqual([0, 31, 32, 69]);
  });

  test("a constraint under which only stop tokens are left outranks the minimum", () => {
    const constraint = allowing(1, 2);
    expect(adjusted([0, 0, 0], { constraint, forbiddenTokenIds: [1, 2] })).toEqual([
      -Infinity,
      0,
      0,
    ]);
    expect(adjusted([0, 0, 0], { constraint, forbiddenTokenIds: [2] })).toEqual([
      -Infinity,
      0,
      -Infinity,
    ]);
  });

  test("is forbidden beyond the vocabulary as well, which is no way out", () => {
    expect(adjusted([0, 0], { constraint: allowing(40), forbiddenTokenIds: [1] })).toEqual([
      -Infinity,
      -Infinity,
    ]);
  });
});

test("logits are taken as they are only where nothing would change them", () => {
  expect(isUnadjusted(aTokenChoice())).toBe(true);
  for (const sampling of [
    { repetitionPenalty: 1.1 },
    { frequencyPenalty: 0.1 },
    { presencePenalty: -0.1 },
    { logitBias: [[0, 1]] as const },
  ]) {
    expect(isUnadjusted(aTokenChoice({ sampling: aSampling(sampling) }))).toBe(false);
  }
  expect(isUnadjusted(aTokenChoice({ forbiddenTokenIds: [0] }))).toBe(false);
  expect(isUnadjusted(aTokenChoice({ constraint: allowing(0) }))).toBe(false);
});
