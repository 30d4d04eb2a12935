import * as fc from "fast-check";
import { expect, test } from "vitest";
import { referenceSequences, requestCostMs } from "../../../src/forecast/request-cost.ts";
import { IDLE_LOAD } from "./support/loads.ts";

const REFERENCE = { step: IDLE_LOAD.step, referenceSequences: 96 };

test("the costs of a batch add up to the time of its steps", () => {
  const { step } = IDLE_LOAD;
  const outputTokens = 100;
  const request = { promptTokens: 1000, cachedTokens: 1000, outputTokens };
  const contextTokens = 96 * (1000 + outputTokens / 2);
  const stepMs =
    step.fixedMs +
    96 * (step.sequenceMs + step.tokenMs) +
    contextTokens * (step.kvTokenMs + step.attendedPairMs);
  const lastTokenMs = step.tokenMs + 1000 * step.attendedPairMs;
  expect(96 * (requestCostMs(request, REFERENCE) - lastTokenMs)).toBeCloseTo(
    outputTokens * stepMs,
    6,
  );
});

test("cost grows with prompt and output and shrinks with what is cached", () => {
  const tokens = fc.integer({ min: 1, max: 100_000 });
  fc.assert(
    fc.property(
      tokens,
      tokens,
      fc.double({ min: 0, max: 1, noNaN: true }),
      (promptTokens, outputTokens, hit) => {
        const cachedTokens = Math.floor(hit * promptTokens);
        const costMs = requestCostMs({ promptTokens, cachedTokens, outputTokens }, REFERENCE);
        const withMore = (more: object) =>
          requestCostMs({ promptTokens, cachedTokens, outputTokens, ...more }, REFERENCE);
        expect(costMs).toBeGreaterThan(0);
        expect(withMore({ promptTokens: promptTokens + 1 })).toBeGreaterThan(costMs);
        expect(withMore({ outputTokens: outputTokens + 1 })).toBeGreaterThan(costMs);
        expect(withMore({ cachedTokens: 0 })).toBeGreaterThanOrEqual(costMs);
      },
    ),
  );
});

test("the reference batch is 96 of 256 sequences, and never empty", () => {
  expect(referenceSequences(256)).toBe(96);
  expect(referenceSequences(1)).toBe(1);
});
