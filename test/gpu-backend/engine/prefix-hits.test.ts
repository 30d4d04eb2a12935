import { describe, expect, test } from "vitest";
import {
  aGenerateRequest,
  anEngine,
  runStep,
  runToEnd,
  tokenRange,
} from "../../support/engine-builders.ts";

describe("prefix hits", () => {
  test("the next turn of a chat computes only what is past the last full block", () => {
    const engine = anEngine();
    const prompt = tokenRange(100);
    engine.submit(aGenerateRequest({ id: "turn 1", promptTokens: prompt, outputTokensMax: 50 }), 0);
    runToEnd(engine);
    const output = Array.from({ length: 50 }, () => 7);
    const promptTokens = [...prompt, ...output, ...tokenRange(30, 5000)];
    engine.submit(aGenerateRequest({ id: "turn 2", promptTokens, outputTokensMax: 1 }), 0);
    // The last of the first turn's 150 tokens was never computed, so nine blocks are full.
    expect(runStep(engine)).toMatchObject({
      tokensById: { "turn 2": 180 - 144 },
      events: [{ kind: "token" }, { kind: "finished", promptTokens: 180, cachedTokens: 144 }],
    });
  });

  test("a request hits only what was computed under its own salt", () => {
    const engine = anEngine();
    const promptTokens = tokenRange(40);
    const request = { promptTokens, outputTokensMax: 1 };
    engine.submit(aGenerateRequest({ ...request, id: "a", cacheSalt: "one" }), 0);
    runStep(engine);
    engine.submit(aGenerateRequest({ ...request, id: "b", cacheSalt: "two" }), 0);
    expect(runStep(engine).tokensById).toEqual({ b: 40 });
    engine.submit(aGenerateRequest({ ...request, id: "c", cacheSalt: "one" }), 0);
    expect(runStep(engine).tokensById).toEqual({ c: 8 });
  });

  test("a request hits only what was computed with its own adapter", () => {
    const engine = anEngine();
    const request = { promptTokens: tokenRange(40), outputTokensMax: 1 };
    const adapters = [undefined, "one", "two", "one", undefined];
    const computed = adapters.map((adapter) => {
      const named = adapter === undefined ? {} : { adapter };
      engine.submit(aGenerateRequest({ ...request, ...named }), 0);
      return runStep(engine).tokensById["a"];
    });
    expect(computed).toEqual([40, 40, 40, 8, 8]);
  });

  test("tells what can be hit and what no longer can, to whoever asked for it", () => {
    const silent = anEngine();
    const engine = anEngine({ logsEvents: true });
    for (const served of [silent, engine]) {
      served.submit(aGenerateRequest({ promptTokens: tokenRange(40), outputTokensMax: 1 }), 0);
      runToEnd(served);
    }
    expect(silent.takeKvEvents(10)).toEqual([]);
    const told = engine.takeKvEvents(10);
    expect(told).toMatchObject([{ kind: "stored" }, { kind: "stored" }]);
    engine.submit(aGenerateRequest({ promptTokens: tokenRange(8, 5000) }), 0);
    runStep(engine);
    expect(engine.resetPrefixCache()).toBe(false);
    expect(engine.takeKvEvents(10)).toEqual([]);
    runToEnd(engine);
    expect(engine.resetPrefixCache()).toBe(true);
    expect(engine.takeKvEvents(10)).toEqual([{ kind: "all-cleared" }]);
  });

  test("a request that is deferred twice before it runs is counted once", () => {
    const engine = anEngine({ blockCount: 4 });
    engine.submit(aGenerateRequest({ id: "a", outputTokensMax: 3 }), 0);
    const promptTokens = tokenRange(50, 5000);
    engine.submit(aGenerateRequest({ id: "b", promptTokens, outputTokensMax: 1 }), 0);
    for (let step = 0; step < 3; step++) {
      runStep(engine);
      expect(engine.counters.prefix).toMatchObject({ queriedTokens: 8, hitTokens: 0 });
    }
    runStep(engine);
    expect(engine.counters.prefix).toMatchObject({ queriedTokens: 58, hitTokens: 0 });
  });

  test("resetPrefixCache() waits for the last running request", () => {
    const engine = anEngine();
    engine.submit(aGenerateRequest({ promptTokens: tokenRange(40) }), 0);
    runStep(engine);
    expect(engine.resetPrefixCache()).toBe(false);
    runToEnd(engine);
    expect(engine.resetPrefixCache()).toBe(true);
    engine.submit(aGenerateRequest({ promptTokens: tokenRange(40) }), 0);
    expect(runStep(engine).tokensById).toEqual({ a: 40 });
  });
});
