import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { InvalidLogitsError, tokenLogprob } from "../../../gpu-backend/engine/log-probability.ts";

const logits = fc.array(
  fc.integer({ min: -60, max: 60 }).map((tenths) => Math.fround(tenths / 10)),
  { minLength: 1, maxLength: 30, size: "max" },
);

describe("tokenLogprob()", () => {
  test("is the logarithm of the softmax", () => {
    fc.assert(
      fc.property(logits, fc.nat(29), (values, drawn) => {
        const token = drawn % values.length;
        const total = values.reduce((sum, logit) => sum + Math.exp(logit), 0);
        const expected = Math.log(Math.exp(values[token] ?? 0) / total);
        const { tokenId, logprob } = tokenLogprob(Float32Array.from(values), token, 0);
        expect(tokenId).toBe(token);
        expect(logprob).toBeCloseTo(expected, 10);
      }),
    );
  });

  test("tells the most probable tokens, the lowest id first among equals", () => {
    fc.assert(
      fc.property(logits, fc.nat(20), (values, count) => {
        const { top } = tokenLogprob(Float32Array.from(values), 0, count);
        const sorted = values
          .map((logit, token) => ({ logit, token }))
          .toSorted((a, b) => b.logit - a.logit || a.token - b.token);
        expect(top.map(({ tokenId }) => tokenId)).toEqual(
          sorted.slice(0, count).map(({ token }) => token),
        );
        for (const { tokenId, logprob } of top) {
          expect(logprob).toBe(tokenLogprob(Float32Array.from(values), tokenId, 0).logprob);
        }
      }),
      { numRuns: 500 },
    );
  });

  test("holds for logits that no exponential can hold", () => {
    const { logprob, top } = tokenLogprob(Float32Array.of(3e38, -3e38, 3e38), 1, 2);
    expect(logprob).toBeLessThan(-1e38);
    expect(Number.isFinite(logprob)).toBe(true);
    expect(top.map(({ tokenId }) => tokenId)).toEqual([0, 2]);
  });

  test("does not exist where a logit is not finite", () => {
    for (const bad of [Number.NaN, Infinity, -Infinity]) {
      expect(() => tokenLogprob(Float32Array.of(1, bad), 0, 0)).toThrow(InvalidLogitsError);
    }
  });
});
