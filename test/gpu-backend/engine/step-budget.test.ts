import { describe, expect, test } from "vitest";
import { StepModel } from "../../../src/step-cost/step-model.ts";
import { aGenerateRequest, anEngine, runStep, tokenRange } from "../../support/engine-builders.ts";

/** 2 ms a step, 0.1 ms a token. */
const FORECAST = new StepModel({
  fixedMs: 2,
  tokenMs: 0.1,
  attendedPairMs: 0,
  sequenceMs: 0,
  kvTokenMs: 0,
});

/** An engine with one answer under way, its gaps promised to be so short, and a long prompt behind it. */
function decoding(tbtTargetMs: number | undefined, options: { keepsTbt?: boolean } = {}) {
  const engine = anEngine({
    blockCount: 200,
    contextTokens: 2048,
    forecast: FORECAST,
    keepsTbt: options.keepsTbt ?? true,
  });
  const target = tbtTargetMs === undefined ? {} : { tbtTargetMs };
  engine.submit(aGenerateRequest({ id: "decode", outputTokensMax: 50, ...target }), 0);
  runStep(engine);
  engine.submit(aGenerateRequest({ id: "prefill", promptTokens: tokenRange(600, 5000) }), 0);
  return engine;
}

describe("the budget of a step", () => {
  test("is the largest whose predicted time keeps the tightest gap that was promised, with a margin", () => {
    // 0.9 · 20 = 18 ms: 2 ms and 160 tokens, one of which decodes.
    expect(runStep(decoding(20)).tokensById).toEqual({ decode: 1, prefill: 159 });
    const engine = decoding(20);
    engine.submit(
      aGenerateRequest({ id: "tighter", promptTokens: [1], tbtTargetMs: 10, outputTokensMax: 9 }),
      0,
    );
    expect(runStep(engine).tokensById).toEqual({ decode: 1, prefill: 159 });
    expect(runStep(engine).tokensById).toEqual({ decode: 1, prefill: 159 });
    expect(runStep(engine).tokensById).toEqual({ decode: 1, prefill: 159 });
    // The last chunk leaves time for the short prompt, whose promise counts from the next step on.
    expect(runStep(engine).tokensById).toEqual({ decode: 1, prefill: 123, tighter: 1 });
    engine.submit(aGenerateRequest({ id: "late", promptTokens: tokenRange(300, 9000) }), 0);
    // 9 ms now: 70 tokens, three of which decode.
    expect(runStep(engine).tokensById["late"]).toBe(67);
  });

  test("is bounded by tokens alone when nobody was promised a gap, or steps are not to keep to it", () => {
    expect(runStep(decoding(undefined)).tokensById).toEqual({ decode: 1, prefill: 600 });
    expect(runStep(decoding(20, { keepsTbt: false })).tokensById["prefill"]).toBe(600);
  });

  test("has some prefill however tight the gap, so that decodes hold nobody up for good", () => {
    expect(runStep(decoding(2.5)).tokensById).toEqual({ decode: 1, prefill: 16 });
  });

  test("does not look at a gap that decodes alone would miss", () => {
    expect(runStep(decoding(1)).tokensById).toEqual({ decode: 1, prefill: 600 });
  });

  test("has a token for each decode before any prefill, however urgent", () => {
    const ranks = ["urgent", "a", "b"];
    const engine = anEngine({
      batchTokensMax: 10,
      compareUrgency: (a, b) => ranks.indexOf(a.id) - ranks.indexOf(b.id),
    });
    for (const [index, id] of ["a", "b"].entries()) {
      const promptTokens = tokenRange(4, 1000 * index);
      engine.submit(aGenerateRequest({ id, promptTokens, outputTokensMax: 20 }), 0);
    }
    runStep(engine);
    engine.submit(aGenerateRequest({ id: "urgent", promptTokens: tokenRange(30, 5000) }), 0);
    expect(runStep(engine).tokensById).toEqual({ a: 1, b: 1, urgent: 8 });
    expect(runStep(engine).tokensById).toEqual({ urgent: 8, a: 1, b: 1 });
  });

  test("a victim's token goes to those that are left", () => {
    const ranks = ["a", "prefill", "b"];
    const engine = anEngine({
      blockTokens: 4,
      blockCount: 20,
      batchTokensMax: 4,
      sequencesMax: 3,
      compareUrgency: (a, b) => ranks.indexOf(a.id) - ranks.indexOf(b.id),
    });
    for (const [index, id] of ["a", "b"].entries()) {
      const promptTokens = tokenRange(8, 1000 * index);
      engine.submit(aGenerateRequest({ id, promptTokens, outputTokensMax: 40 }), 0);
    }
    for (let step = 0; step < 6; step++) runStep(engine);
    engine.submit(aGenerateRequest({ id: "prefill", promptTokens: tokenRange(40, 5000) }), 0);
    const shares = Array.from({ length: 20 }, () => {
      const preemptionsBefore = engine.counters.preemptions;
      const { tokensById } = runStep(engine);
      return engine.counters.preemptions > preemptionsBefore ? tokensById : {};
    });
    expect(shares.find((share) => share["a"] !== undefined)).toEqual({ a: 1, prefill: 3 });
  });
});
