import { describe, expect, test } from "vitest";
import type { Engine } from "../../../gpu-backend/engine/engine.ts";
import type { EngineOptions } from "../../../gpu-backend/engine/engine-options.ts";
import {
  aGenerateRequest,
  anEngine,
  runStep,
  runToEnd,
  tokenRange,
} from "../../support/engine-builders.ts";
import { MemoryEngine } from "../../support/memory-engine.ts";

/** Submits requests of these prompt lengths that share nothing, named a, b, c … */
function submitPrompts(engine: Engine, lengths: readonly number[]): void {
  for (const [index, length] of lengths.entries()) {
    const promptTokens = tokenRange(length, 1000 * (index + 1));
    engine.submit(aGenerateRequest({ id: String.fromCodePoint(97 + index), promptTokens }), 0);
  }
}

/** A prompt is computed in one step or not yet. */
const WHOLE = { blockCount: 200, contextTokens: 2048, chunkedPrefill: false };

const aWholeEngine = (overrides: Partial<EngineOptions> = {}) =>
  anEngine({ ...WHOLE, ...overrides });

describe("whole prompts", () => {
  test("wait for a step that has room for all of them, and nobody overtakes them", () => {
    const engine = aWholeEngine();
    submitPrompts(engine, [800, 800, 10, 10]);
    expect(runStep(engine).tokensById).toEqual({ a: 800 });
    expect(runStep(engine).tokensById).toEqual({ a: 1, b: 800, c: 10, d: 10 });
  });

  test("need room only for what is not cached", () => {
    const engine = aWholeEngine();
    engine.submit(aGenerateRequest({ promptTokens: tokenRange(800, 9000) }), 0);
    runToEnd(engine);
    submitPrompts(engine, [800]);
    engine.submit(aGenerateRequest({ id: "b", promptTokens: tokenRange(900, 9000) }), 0);
    expect(runStep(engine).tokensById).toEqual({ a: 800, b: 100 });
  });

  test("are no longer than a step, and neither is what becomes of them", () => {
    const engine = aWholeEngine({ batchTokensMax: 40 });
    expect(engine.sequenceTokensMax).toBe(40);
    expect(engine.submit(aGenerateRequest({ promptTokens: tokenRange(40) }), 0)).toEqual([
      { kind: "refused", id: "a", reason: "prompt-too-long" },
    ]);
    engine.submit(aGenerateRequest({ promptTokens: tokenRange(30), outputTokensMax: 50 }), 0);
    expect(runToEnd(engine).at(-1)?.events.at(-1)).toMatchObject({
      reason: "length",
      outputTokens: 10,
    });
  });

  test("that a failed step leaves uncomputed stay whole, and whoever comes now waits for them", () => {
    const ranks = ["late", "b", "a"];
    const engine = aWholeEngine({
      batchTokensMax: 60,
      compareUrgency: (a, b) => ranks.indexOf(a.id) - ranks.indexOf(b.id),
    });
    submitPrompts(engine, [20, 40]);
    const failed = engine.plan(0).batch;
    expect(failed?.totalTokens).toBe(60);
    if (failed === undefined) throw new Error("both are planned");
    engine.rollback(failed);
    engine.submit(aGenerateRequest({ id: "late", promptTokens: tokenRange(10, 9000) }), 0);
    expect(runStep(engine).tokensById).toEqual({ b: 40, a: 20 });
    expect(runStep(engine).tokensById).toEqual({ b: 1, a: 1, late: 10 });
  });

  test("that are scored take several steps all the same, and nobody overtakes them between two", () => {
    const served = new MemoryEngine({ ...WHOLE, batchTokensMax: 140 });
    const promptOf = (length: number, first: number) =>
      Array.from({ length }, (_, index) => (first + index) % served.vocabularyTokens);
    const scored = { promptLogprobsTop: 0, outputTokensMax: 0 };
    served.submit(aGenerateRequest({ id: "a", promptTokens: promptOf(100, 0), ...scored }));
    served.submit(aGenerateRequest({ id: "b", promptTokens: promptOf(120, 1) }));
    const rowsOf = () =>
      served.step()?.rows.map(({ sequenceId, tokens }) => [sequenceId, tokens.length]);
    expect([rowsOf(), rowsOf(), rowsOf()]).toEqual([[["a", 64]], [["a", 36]], [["b", 120]]]);
  });

  test("cannot be asked for together with steps that are cut to a gap", () => {
    expect(() => aWholeEngine({ keepsTbt: true })).toThrow("whole prompt");
  });
});
