import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { copyState } from "../../../src/base/plain-state.ts";
import { seededRandom } from "../../../src/base/random.ts";
import { OutputLengths } from "../../../src/forecast/output-lengths.ts";
import { drawLength } from "./support/draws.ts";

const KEY = { tenantId: "chat", modelId: "llama" };
const ENDED = { isCensored: false };
const CUT = { isCensored: true };

const meanOf = (values: readonly number[]) =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

const lengthsOf = (seed: number, count: number, medianTokens = 200, sigma = 0.8) => {
  const random = seededRandom(seed);
  return Array.from({ length: count }, () => drawLength(random, medianTokens, sigma));
};

/** What a tenant's past says, without its model's or the prior's. */
function learned(lengths: readonly number[]): OutputLengths {
  const outputs = new OutputLengths({ weightMax: 10_000, priorWeight: 0.01 });
  for (const tokens of lengths) outputs.learn(KEY, tokens, 0, ENDED);
  return outputs;
}

/** Of a tenant whose outputs became eight times as long, a while ago. */
function medianAfterChange(pauseMs: number): number {
  const outputs = new OutputLengths();
  for (const tokens of lengthsOf(8, 1000, 100, 0.3)) outputs.learn(KEY, tokens, 0, ENDED);
  for (const tokens of lengthsOf(9, 200, 800, 0.3)) outputs.learn(KEY, tokens, pauseMs, ENDED);
  return outputs.expected(KEY).medianTokens;
}

function learnAndAsk(outputs: OutputLengths, index: number, tokens: number): unknown {
  const key = { ...KEY, tenantId: `t${index % 5}` };
  outputs.learn(key, tokens, index * 1000, index % 7 === 0 ? CUT : ENDED);
  return [outputs.expected(key, 300), outputs.residualTokens(key, 40)];
}

describe("OutputLengths", () => {
  test("believes what comes next of a tenant that it doubts, and of no other tenant", () => {
    const outputs = new OutputLengths();
    const other = { ...KEY, tenantId: "other" };
    for (const tokens of lengthsOf(8, 500, 100, 0.3)) {
      outputs.learn(KEY, tokens, 0, ENDED);
      outputs.learn(other, tokens, 0, ENDED);
    }
    outputs.doubt(KEY.tenantId);
    outputs.checkInvariants();
    for (const tokens of lengthsOf(9, 60, 800, 0.3)) {
      outputs.learn(KEY, tokens, 0, ENDED);
      outputs.learn(other, tokens, 0, ENDED);
    }
    expect(outputs.expected(KEY).medianTokens).toBeGreaterThan(600);
    expect(outputs.expected(other).medianTokens).toBeLessThan(150);
  });

  test("finds mean and quantiles of what it saw", () => {
    const lengths = lengthsOf(1, 5000);
    const sorted = lengths.toSorted((a, b) => a - b);
    const { meanTokens, medianTokens, p90Tokens } = learned(lengths).expected(KEY);
    expect(meanTokens / meanOf(lengths)).toBeCloseTo(1, 1);
    expect(medianTokens / (sorted[2500] ?? 0)).toBeCloseTo(1, 1);
    expect(p90Tokens / (sorted[4500] ?? 0)).toBeCloseTo(1, 1);
  });

  test("a limit cuts what is expected as it cuts outputs", () => {
    const lengths = lengthsOf(2, 5000);
    const outputs = learned(lengths);
    for (const limit of [1, 10, 100, 400, 2000]) {
      const cutMean = meanOf(lengths.map((tokens) => Math.min(tokens, limit)));
      const { meanTokens, medianTokens, p90Tokens } = outputs.expected(KEY, limit);
      expect(meanTokens / cutMean).toBeGreaterThan(0.95);
      expect(meanTokens / cutMean).toBeLessThan(1.05);
      expect(Math.max(meanTokens, medianTokens, p90Tokens)).toBeLessThanOrEqual(limit);
    }
  });

  test("what is left of an output is the mean over those that became as old", () => {
    const lengths = lengthsOf(3, 20_000);
    const outputs = learned(lengths.slice(0, 5000));
    for (const soFarTokens of [0, 20, 100, 300, 800]) {
      const older = lengths.filter((tokens) => tokens > soFarTokens);
      const leftTokens = meanOf(older.map((tokens) => tokens - soFarTokens));
      const ratio = outputs.residualTokens(KEY, soFarTokens) / leftTokens;
      expect(ratio).toBeGreaterThan(0.85);
      expect(ratio).toBeLessThan(1.15);
    }
  });

  test("what is left never goes beyond the limit, and is at least a token before it", () => {
    const outputs = learned(lengthsOf(4, 500));
    fc.assert(
      fc.property(fc.nat(3_000_000), fc.integer({ min: 1, max: 3_000_000 }), (soFar, limit) => {
        const leftTokens = outputs.residualTokens(KEY, soFar, limit);
        expect(leftTokens).toBeLessThanOrEqual(Math.max(0, limit - soFar));
        expect(leftTokens).toBeGreaterThanOrEqual(Math.min(1, Math.max(0, limit - soFar)));
      }),
    );
  });

  test("outputs that were cut make nothing shorter than it is", () => {
    const lengths = lengthsOf(5, 8000);
    const limits = lengthsOf(6, 8000, 250, 0.5);
    const honest = new OutputLengths({ weightMax: 20_000, priorWeight: 0.01 });
    const naive = new OutputLengths({ weightMax: 20_000, priorWeight: 0.01 });
    for (const [index, tokens] of lengths.entries()) {
      const limit = limits[index] ?? Infinity;
      honest.learn(KEY, Math.min(tokens, limit), 0, tokens > limit ? CUT : ENDED);
      naive.learn(KEY, Math.min(tokens, limit), 0, ENDED);
    }
    const truthTokens = meanOf(lengths.map((tokens) => Math.min(tokens, 400)));
    expect(honest.expected(KEY, 400).meanTokens / truthTokens).toBeGreaterThan(0.95);
    expect(honest.expected(KEY, 400).meanTokens / truthTokens).toBeLessThan(1.05);
    expect(naive.expected(KEY, 400).meanTokens / truthTokens).toBeLessThan(0.9);
  });

  test("a tenant is taken for its model's mean until its own outputs outweigh it", () => {
    const outputs = new OutputLengths();
    for (const tokens of lengthsOf(7, 1000, 100, 0.3)) outputs.learn(KEY, tokens, 0, ENDED);
    const other = { ...KEY, tenantId: "bulk" };
    const model = outputs.expected(other).meanTokens;
    const own = outputs.expected(KEY).meanTokens;
    outputs.learn(other, 2000, 0, ENDED);
    const afterOne = outputs.expected(other).meanTokens;
    for (let i = 0; i < 100; i++) outputs.learn(other, 2000, 0, ENDED);
    const afterMany = outputs.expected(other).meanTokens;
    expect(Math.abs(model / own - 1)).toBeLessThan(0.15);
    expect(afterOne).toBeLessThan(1000);
    expect(afterMany).toBeGreaterThan(1700);
  });

  test("an unknown model has a sane prior", () => {
    const { meanTokens, medianTokens, p90Tokens } = new OutputLengths().expected(KEY);
    expect(medianTokens).toBeCloseTo(150, -1);
    expect(meanTokens).toBeGreaterThan(medianTokens);
    expect(p90Tokens).toBeGreaterThan(meanTokens);
  });

  test("follows a tenant whose outputs change, sooner when time has passed", () => {
    expect(medianAfterChange(0)).toBeLessThan(200);
    expect(medianAfterChange(6 * 600_000)).toBeGreaterThan(600);
  });

  test("remembers a bounded number of tenants and models, the latest ones", () => {
    const outputs = new OutputLengths({ tenantsMax: 3, modelsMax: 2 });
    for (let model = 0; model < 5; model++) {
      for (let tenant = 0; tenant < 10; tenant++) {
        const key = { tenantId: `t${tenant}`, modelId: `m${model}` };
        outputs.learn(key, 10, 0, ENDED);
        outputs.learn({ ...key, tenantId: "t0" }, 10, 0, ENDED);
        outputs.checkInvariants();
      }
    }
    expect([...outputs.state.byModel.keys()]).toEqual(["m3", "m4"]);
    expect([...(outputs.state.byModel.get("m4")?.byTenant.keys() ?? [])]).toEqual([
      "t8",
      "t9",
      "t0",
    ]);
  });

  test("goes on from a copy of its state with the same answers", () => {
    const first = new OutputLengths();
    const lengths = lengthsOf(10, 400);
    for (const [index, tokens] of lengths.slice(0, 200).entries())
      learnAndAsk(first, index, tokens);
    const second = new OutputLengths({}, copyState(first.state));
    for (const [index, tokens] of lengths.slice(200).entries()) {
      expect(learnAndAsk(second, 200 + index, tokens)).toEqual(
        learnAndAsk(first, 200 + index, tokens),
      );
    }
    first.checkInvariants();
    expect(second.state).toEqual(first.state);
  });
});
