import { describe, expect, test } from "vitest";
import type { GenerateRequest } from "../../../gpu-backend/engine/generate-request.ts";
import {
  aGenerateRequest,
  anEngine,
  aSampling,
  tokenRange,
} from "../../support/engine-builders.ts";
import { MemoryEngine } from "../../support/memory-engine.ts";

const aPrompt = (length: number) => Array.from({ length }, (_, index) => (index * index) % 12);

const scored = (overrides: Partial<GenerateRequest> = {}) =>
  aGenerateRequest({ promptTokens: aPrompt(23), promptLogprobsTop: 2, ...overrides });

const pooled = (overrides: Partial<GenerateRequest> = {}) =>
  aGenerateRequest({
    promptTokens: aPrompt(23),
    outputTokensMax: 0,
    pooling: "mean",
    ...overrides,
  });

/** Serves requests one behind the other. */
function serve(requests: readonly GenerateRequest[], options = {}): MemoryEngine {
  const served = new MemoryEngine({ sequencesMax: 1, ...options });
  for (const request of requests) served.submit(request);
  served.runToEnd();
  return served;
}

describe("prompt log probabilities", () => {
  test("come once, before the first token: one a prompt token, none for the first", () => {
    const served = serve([scored({ outputTokensMax: 2 })]);
    const [first, ...others] = served.heardBy("a");
    expect(others.map(({ kind }) => kind)).toEqual(["token", "token", "finished"]);
    const logprobs = first?.kind === "prompt-logprobs" ? first.logprobs : [];
    expect(logprobs.map((logprob) => logprob?.tokenId)).toEqual([
      undefined,
      ...aPrompt(23).slice(1),
    ]);
    for (const logprob of logprobs.slice(1)) {
      expect(logprob?.top).toHaveLength(2);
      expect(logprob?.logprob).toBeLessThanOrEqual(logprob?.top[0]?.logprob ?? -Infinity);
    }
  });

  test("without an output end by length after the prompt is computed, once", () => {
    const served = serve([scored({ outputTokensMax: 0 })], { batchTokensMax: 5 });
    expect(served.heardBy("a").map(({ kind }) => kind)).toEqual(["prompt-logprobs", "finished"]);
    expect(served.events.at(-1)).toMatchObject({ reason: "length", outputTokens: 0 });
    expect(served.engine.counters).toMatchObject({ computedTokens: 23, generatedTokens: 0 });
    expect(served.engine.load().usedBlocks).toBe(0);
  });

  test("of a prompt of one token are one entry without a value", () => {
    const served = serve([scored({ promptTokens: [7], outputTokensMax: 0 })]);
    expect(served.heardBy("a")[0]).toMatchObject({ logprobs: [undefined] });
  });

  test("change no token of the output", () => {
    const plain = aGenerateRequest({ promptTokens: aPrompt(23), outputTokensMax: 6 });
    expect(serve([scored({ outputTokensMax: 6 })]).tokensOf("a")).toEqual(
      serve([plain]).tokensOf("a"),
    );
  });

  test("are computed for a whole prompt that is cached, and count as no hit", () => {
    const plain = aGenerateRequest({ id: "first", promptTokens: aPrompt(23), outputTokensMax: 1 });
    const served = serve([plain, scored()]);
    expect(served.events.at(-1)).toMatchObject({ id: "a", cachedTokens: 0 });
    expect(served.engine.counters.prefix).toMatchObject({ queriedTokens: 23, hitTokens: 0 });
    expect(served.heardBy("a")[0]).toEqual(serve([scored()]).heardBy("a")[0]);
  });

  test("leave their blocks for others to hit", () => {
    const plain = aGenerateRequest({ id: "second", promptTokens: aPrompt(23) });
    const served = serve([scored({ outputTokensMax: 0 }), plain]);
    expect(served.events.at(-1)).toMatchObject({ id: "second", cachedTokens: 20 });
  });

  test("never come for a request that is cancelled before its prompt is computed", () => {
    const served = new MemoryEngine({ batchTokensMax: 8 });
    served.submit(scored());
    served.step();
    served.cancel("a");
    expect(served.heardBy("a")).toMatchObject([{ kind: "finished", reason: "cancelled" }]);
  });
});

describe("a pooled prompt", () => {
  test("yields one vector of length 1, then ends without a token", () => {
    const served = serve([pooled()]);
    expect(served.heardBy("a").map(({ kind }) => kind)).toEqual(["embedded", "finished"]);
    expect(served.events.at(-1)).toMatchObject({ reason: "length", outputTokens: 0 });
    const [embedded] = served.events;
    const vector = embedded?.kind === "embedded" ? embedded.vector : new Float32Array(0);
    expect(Math.hypot(...vector)).toBeCloseTo(1, 6);
  });

  test("yields the same bits however its chunks are cut, and whoever is in the batch", () => {
    const [expected] = serve([pooled()]).heardBy("a");
    for (const batchTokensMax of [1, 3, 7, 16]) {
      expect(serve([pooled()], { batchTokensMax }).heardBy("a")[0]).toEqual(expected);
    }
    const others = [1, 2, 3].map((seed) =>
      aGenerateRequest({ id: `other ${seed}`, sampling: aSampling({ temperature: 1, seed }) }),
    );
    const promptTokens = aPrompt(8);
    const served = serve([...others.map((other) => ({ ...other, promptTokens })), pooled()], {
      sequencesMax: 4,
      batchTokensMax: 9,
    });
    expect(served.heardBy("a")[0]).toEqual(expected);
  });

  test("has no use for cached blocks, since it needs the states of all tokens", () => {
    const plain = aGenerateRequest({ id: "first", promptTokens: aPrompt(23), outputTokensMax: 1 });
    const served = serve([plain, pooled()]);
    expect(served.heardBy("a")).toEqual(serve([pooled()]).heardBy("a"));
  });
});

describe("a prompt that is only looked at", () => {
  test("may fill the context or the pool to the last token", () => {
    const filling = { promptTokens: aPrompt(64) };
    for (const options of [{ contextTokens: 64 }, { blockCount: 16 }]) {
      const served = serve([scored({ ...filling, outputTokensMax: 0 })], options);
      expect(served.events.at(-1)).toMatchObject({ kind: "finished", promptTokens: 64 });
      expect(serve([pooled(filling)], options).events.at(-1)).toMatchObject({ kind: "finished" });
      expect(serve([scored(filling)], options).events).toMatchObject([{ kind: "refused" }]);
    }
  });

  test("is one or the other, and nothing at all is a fault of the caller", () => {
    const engine = anEngine();
    const promptTokens = tokenRange(3);
    const nonsense = [
      ["asks for at least one token", { outputTokensMax: 0 }],
      ["has no output", { pooling: "mean" }],
      ["is scored or pooled", { pooling: "mean", promptLogprobsTop: 0, outputTokensMax: 0 }],
    ] as const;
    for (const [message, changes] of nonsense) {
      const request = aGenerateRequest({ promptTokens, ...changes });
      expect(() => engine.submit(request, 0)).toThrow(message);
    }
    expect(engine.load().queuedRequests).toBe(0);
  });
});
