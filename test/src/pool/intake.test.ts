import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { OutputLengths } from "../../../src/forecast/output-lengths.ts";
import { capacityOf } from "../../../src/pool/capacity.ts";
import type { IntakeParts } from "../../../src/pool/intake.ts";
import { clamped, costMsOf, toPoolRequest } from "../../../src/pool/intake.ts";
import { TokenEstimate } from "../../../src/pool/token-estimate.ts";
import { anOffer, firstTokenWithin } from "../../support/pool-builders.ts";
import { aReplica } from "../../support/replica-builders.ts";

const CAPACITY = capacityOf([aReplica().loadAt(0)]);
const KEY = { tenantId: "tenant-a", modelId: "sluice-tiny" };

function someParts(): IntakeParts {
  return {
    tokenEstimate: new TokenEstimate(),
    outputLengths: new OutputLengths(),
    firstTokenMsMax: 60_000,
  };
}

function routeOf(route: string): number {
  return toPoolRequest(anOffer("a", { route }), someParts(), CAPACITY, 0).routeHash;
}

describe("toPoolRequest()", () => {
  test("an output that was learned to be short is expected to be, and costs less", () => {
    const parts = someParts();
    const long = anOffer("a", { outputTokensMax: 500 });
    const before = toPoolRequest(long, parts, CAPACITY, 0);
    for (let index = 0; index < 100; index += 1) {
      parts.outputLengths.learn(KEY, 10, index, { isCensored: false });
    }
    const after = toPoolRequest(long, parts, CAPACITY, 100);
    expect(after.outputTokens).toBeLessThan(before.outputTokens / 2);
    expect(after.costMs).toBeLessThan(before.costMs);
  });

  test("no output is expected to be longer than the client lets it be", () => {
    const request = toPoolRequest(anOffer("a", { outputTokensMax: 7 }), someParts(), CAPACITY, 0);
    expect(request.outputTokens).toBeLessThanOrEqual(7);
    expect(request.outputTokensHigh).toBeLessThanOrEqual(7);
  });

  test("a stream is bound by its first token and pace, a whole answer by its end", () => {
    const targets = {
      ...firstTokenWithin(500),
      tpot: { percentileRatio: 0.99, limitMs: 40 },
      tbtMaxMs: 200,
    };
    const parts = someParts();
    const streamed = toPoolRequest(anOffer("a", { targets }), parts, CAPACITY, 0);
    expect(streamed.limits).toEqual({
      ttftLimitMs: 500,
      tpotLimitMs: 40,
      tbtMaxMs: 200,
      e2eLimitMs: Infinity,
    });
    const offer = anOffer("a", { targets, isStreamed: false, outputTokensMax: 11 });
    const whole = toPoolRequest(offer, parts, CAPACITY, 0);
    expect(whole.limits.tbtMaxMs).toBe(Infinity);
    expect(whole.limits.ttftLimitMs).toBe(60_000);
    expect(whole.limits.e2eLimitMs).toBeGreaterThan(500);
    expect(whole.limits.e2eLimitMs).toBeLessThanOrEqual(500 + 40 * 10);
  });

  test("what was promised nothing still has a first token to wait for, not for ever", () => {
    const { limits } = toPoolRequest(anOffer("a", { targets: {} }), someParts(), CAPACITY, 0);
    expect(limits.ttftLimitMs).toBe(60_000);
  });

  test("requests of one beginning share a route, whatever follows", () => {
    expect(routeOf("x")).toBe(routeOf("x"));
    expect(routeOf("x")).not.toBe(routeOf("y"));
  });
});

describe("costMsOf()", () => {
  test("nothing costs anything before there is a replica to measure by", () => {
    const work = { promptTokens: 100, cachedTokens: 0, outputTokens: 100 };
    expect(costMsOf(work, undefined)).toBe(0);
    expect(costMsOf(work, CAPACITY)).toBeGreaterThan(0);
  });

  test("costs add up to the same in any order", () => {
    const tokens = fc.double({ min: 0, max: 5_000, noNaN: true });
    const work = fc.record({
      promptTokens: tokens,
      cachedTokens: fc.constant(0),
      outputTokens: tokens,
    });
    fc.assert(
      fc.property(fc.array(work, { maxLength: 50 }), (works) => {
        const costs = works.map((each) => costMsOf(each, CAPACITY));
        const sum = costs.reduce((total, each) => total + each, 0);
        const left = costs.toReversed().reduce((total, each) => total - each, sum);
        expect(left).toBe(0);
      }),
    );
  });
});

describe("clamped()", () => {
  test("a shorter answer is expected to be no longer than that, and costs less", () => {
    const parts = someParts();
    const request = toPoolRequest(anOffer("a"), parts, CAPACITY, 0);
    const shorter = clamped(request, 8, parts, CAPACITY);
    expect(shorter.clampedOutputTokensMax).toBe(8);
    expect(shorter.outputTokensHigh).toBeLessThanOrEqual(8);
    expect(shorter.costMs).toBeLessThan(request.costMs);
    expect(shorter.promptTokens).toBe(request.promptTokens);
  });

  test("an answer that the client itself wants no longer is not cut short", () => {
    const parts = someParts();
    const request = toPoolRequest(anOffer("a", { outputTokensMax: 8 }), parts, CAPACITY, 0);
    expect(clamped(request, 8, parts, CAPACITY)).toBe(request);
    expect(clamped(request, 100, parts, CAPACITY)).toBe(request);
  });

  test("a second clamp can only shorten what the first has left", () => {
    const parts = someParts();
    const once = clamped(toPoolRequest(anOffer("a"), parts, CAPACITY, 0), 8, parts, CAPACITY);
    expect(clamped(once, 20, parts, CAPACITY)).toBe(once);
    expect(clamped(once, 4, parts, CAPACITY).clampedOutputTokensMax).toBe(4);
  });
});
