import * as fc from "fast-check";
import { expect, test } from "vitest";
import { seededRandom } from "../../../src/base/random.ts";
import type { RequestLengths } from "../../../simulator/workloads/length-table.ts";
import {
  QUANTILE_LEVELS,
  expectedOver,
  fitLengthTable,
  sampleLengths,
} from "../../../simulator/workloads/length-table.ts";
import { correlationOf, meanOf } from "./moments.ts";

const random = seededRandom(7);
/** Prompts spread over three orders of magnitude, answers about half as long. */
const SAMPLE = Array.from({ length: 20_000 }, () => {
  const promptTokens = Math.ceil(10 * 1000 ** random());
  return { promptTokens, outputTokens: Math.ceil(promptTokens * (0.4 + 0.2 * random())) };
});
const TABLE = fitLengthTable(SAMPLE);

function drawn(count: number, seed: number) {
  const source = seededRandom(seed);
  return Array.from({ length: count }, () => sampleLengths(TABLE, source));
}

test("a table keeps the means of its sample and how both lengths hang together", () => {
  const lengths = drawn(40_000, 3);
  for (const key of ["promptTokens", "outputTokens"] as const) {
    const expected = meanOf(SAMPLE.map((request) => request[key]));
    expect(Math.abs(meanOf(lengths.map((request) => request[key])) / expected - 1)).toBeLessThan(
      0.05,
    );
  }
  const logs = (key: "promptTokens" | "outputTokens") => lengths.map((r) => Math.log(r[key]));
  expect(correlationOf(logs("promptTokens"), logs("outputTokens"))).toBeGreaterThan(0.95);
});

test("what is drawn lies between the shortest and the longest of the sample", () => {
  const prompts = SAMPLE.map(({ promptTokens }) => promptTokens);
  const shortest = Math.min(...prompts);
  const longest = Math.max(...prompts);
  for (const { promptTokens, outputTokens } of drawn(5000, 5)) {
    expect(promptTokens).toBeGreaterThanOrEqual(shortest);
    expect(promptTokens).toBeLessThanOrEqual(longest);
    expect(outputTokens).toBeGreaterThanOrEqual(1);
    expect(Number.isInteger(promptTokens) && Number.isInteger(outputTokens)).toBe(true);
  }
});

const price = ({ promptTokens, outputTokens }: RequestLengths) =>
  promptTokens ** 2 + 50 * outputTokens;

test("an expectation agrees with the mean over many draws, also of a price that grows with the square", () => {
  const mean = meanOf(drawn(200_000, 9).map(price));
  expect(Math.abs(expectedOver(TABLE, price) / mean - 1)).toBeLessThan(0.03);
  expect(expectedOver(TABLE, () => 1)).toBeCloseTo(1, 9);
});

test("a table with one row draws answers that know nothing of the prompt", () => {
  const table = { ...TABLE, outputTokensByPrompt: TABLE.outputTokensByPrompt.slice(7, 8) };
  const source = seededRandom(11);
  const lengths = Array.from({ length: 20_000 }, () => sampleLengths(table, source));
  const prompts = lengths.map(({ promptTokens }) => Math.log(promptTokens));
  const outputs = lengths.map(({ outputTokens }) => Math.log(outputTokens));
  expect(Math.abs(correlationOf(prompts, outputs))).toBeLessThan(0.04);
});

test("an answer of zero tokens in a table becomes one token", () => {
  const table = {
    promptTokens: QUANTILE_LEVELS.map(() => 0),
    outputTokensByPrompt: [QUANTILE_LEVELS.map(() => 0)],
  };
  expect(sampleLengths(table, seededRandom(1))).toEqual({ promptTokens: 1, outputTokens: 1 });
});

test("a fit of equal requests draws just those", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 1e6 }), fc.integer({ min: 1, max: 1e6 }), (p, o) => {
      const request = { promptTokens: p, outputTokens: o };
      const table = fitLengthTable(Array.from({ length: 1000 }, () => request));
      expect(sampleLengths(table, seededRandom(p))).toEqual(request);
    }),
    { numRuns: 20 },
  );
});

test("a sample too small for its rarest interval is a bug", () => {
  expect(() => fitLengthTable(SAMPLE.slice(0, 999))).toThrow("rarest interval");
});
