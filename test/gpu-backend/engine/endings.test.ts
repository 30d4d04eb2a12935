import { describe, expect, test } from "vitest";
import type { GenerateRequest } from "../../../gpu-backend/engine/generate-request.ts";
import {
  aGenerateRequest,
  anEngine,
  runStep,
  runToEnd,
  tokenRange,
} from "../../support/engine-builders.ts";

/** What a request gets for which steps choose the tokens 10, 42 and 12, and its last event. */
function outputOf(overrides: Partial<GenerateRequest>) {
  const engine = anEngine();
  engine.submit(aGenerateRequest({ outputTokensMax: 9, ...overrides }), 0);
  const events = [10, 42, 12].flatMap((tokenId) => runStep(engine, { tokenId }).events);
  const tokenIds = events.flatMap((event) => (event.kind === "token" ? [event.tokenId] : []));
  return { tokenIds, end: events.at(-1) };
}

describe("the end of an output", () => {
  test("a request of p prompt and m output tokens computes p + m - 1 tokens", () => {
    const engine = anEngine({ batchTokensMax: 8 });
    engine.submit(aGenerateRequest({ promptTokens: tokenRange(37), outputTokensMax: 9 }), 0);
    const steps = runToEnd(engine);
    expect(steps.reduce((sum, step) => sum + (step.batch?.totalTokens ?? 0), 0)).toBe(37 + 9 - 1);
    expect(engine.counters).toMatchObject({
      promptTokens: 37,
      generatedTokens: 9,
      computedTokens: 37 + 9 - 1,
    });
  });

  test("a stop token ends the output and is part of it", () => {
    const engine = anEngine();
    engine.submit(aGenerateRequest({ stopTokenIds: [41, 42], outputTokensMax: 3 }), 0);
    expect(runStep(engine, { tokenId: 10 }).events).toHaveLength(1);
    expect(runStep(engine, { tokenId: 42 }).events).toEqual([
      { kind: "token", id: "a", tokenId: 42 },
      {
        kind: "finished",
        id: "a",
        reason: "stop",
        promptTokens: 8,
        cachedTokens: 0,
        outputTokens: 2,
      },
    ]);
    expect(engine.load()).toMatchObject({ runningRequests: 0, usedBlocks: 0 });
  });

  test("what a step would bring after the end is not looked at: stop is a stop, length is exact", () => {
    expect(outputOf({ stopTokenIds: [42] })).toMatchObject({
      tokenIds: [10, 42],
      end: { reason: "stop", outputTokens: 2 },
    });
    expect(outputOf({ outputTokensMax: 2 })).toMatchObject({
      tokenIds: [10, 42],
      end: { reason: "length", outputTokens: 2 },
    });
  });

  test("no stop token is allowed before the minimum, and one that comes all the same ends nothing", () => {
    const engine = anEngine();
    const request = { stopTokenIds: [42], outputTokensMin: 5, outputTokensMax: 9 };
    engine.submit(aGenerateRequest(request), 0);
    const steps = [10, 11, 42, 12, 13, 42].map((tokenId) => runStep(engine, { tokenId }));
    const forbidden = steps.map(({ batch }) => batch?.rows[0]?.choice?.forbiddenTokenIds);
    expect(forbidden).toEqual([[42], [42], [42], [42], [42], []]);
    expect(steps.at(-1)?.events.at(-1)).toMatchObject({ reason: "stop", outputTokens: 6 });
  });

  test("a stop token at the length limit is a stop", () => {
    const engine = anEngine();
    engine.submit(aGenerateRequest({ stopTokenIds: [42], outputTokensMax: 1 }), 0);
    expect(runStep(engine, { tokenId: 42 }).events.at(-1)).toMatchObject({ reason: "stop" });
  });

  test("stop tokens in the prompt end nothing", () => {
    const engine = anEngine();
    engine.submit(aGenerateRequest({ promptTokens: [42, 42], stopTokenIds: [42] }), 0);
    expect(runStep(engine).events).toEqual([{ kind: "token", id: "a", tokenId: 7 }]);
  });

  test("an output ends where the context does", () => {
    const engine = anEngine({ contextTokens: 256 });
    engine.submit(aGenerateRequest({ outputTokensMax: 100_000 }), 0);
    const end = runToEnd(engine).at(-1)?.events.at(-1);
    expect(end).toMatchObject({ kind: "finished", reason: "length", outputTokens: 248 });
  });

  test("an output that outgrows the whole pool ends there by length", () => {
    const engine = anEngine({ blockCount: 3, contextTokens: 256 });
    engine.submit(aGenerateRequest({ outputTokensMax: 100_000 }), 0);
    const end = runToEnd(engine).at(-1)?.events.at(-1);
    expect(end).toMatchObject({ kind: "finished", reason: "length", outputTokens: 40 });
    expect(engine.counters.preemptions).toBe(0);
  });
});
