import { describe, expect, test } from "vitest";
import type { Engine } from "../../../gpu-backend/engine/engine.ts";
import type { PromptChain } from "../../../src/protocol/prompt-chain.ts";
import { chainOfText, keysOfText } from "../../support/prompt-chains.ts";
import { aGenerateRequest, anEngine, runToEnd } from "../../support/engine-builders.ts";

const BLOCK_TOKENS = 16;

/** Lets a prompt of so many blocks be computed, and returns what changed of the names. */
function compute(
  engine: Engine,
  wish: { id: string; promptTokens: number[]; promptChain?: PromptChain; cacheSalt?: string },
) {
  engine.submit(aGenerateRequest({ outputTokensMax: 1, ...wish }), 0);
  runToEnd(engine);
  engine.checkInvariants();
  return engine.takePrefixChanges();
}

const tokens = (from: number, count: number) =>
  Array.from({ length: count }, (_, index) => from + index);

describe("names of cached prefixes", () => {
  test("are told once the blocks that they end in can be hit", () => {
    const engine = anEngine({ blockTokens: BLOCK_TOKENS });
    const promptTokens = tokens(1, 4 * BLOCK_TOKENS);
    engine.submit(
      aGenerateRequest({
        id: "a",
        promptTokens,
        promptChain: chainOfText("abcd"),
        outputTokensMax: 1,
      }),
      0,
    );
    expect(engine.takePrefixChanges()).toBeUndefined();
    runToEnd(engine);
    expect(engine.takePrefixChanges()).toEqual({
      stored: keysOfText("abcd").join(""),
      removed: "",
    });
    expect(engine.takePrefixChanges()).toBeUndefined();
  });

  test("of a part of a block that is not full are not told", () => {
    const engine = anEngine({ blockTokens: BLOCK_TOKENS });
    const changes = compute(engine, {
      id: "a",
      promptTokens: tokens(1, 3 * BLOCK_TOKENS + 8),
      promptChain: { keys: keysOfText("ab").join(""), blockRatio: 0.5 },
    });
    // The first half ends in the second block; the whole ends in one that is not full.
    expect(changes).toEqual({ stored: keysOfText("a").join(""), removed: "" });
  });

  test("are told of blocks that were computed for others, too", () => {
    const engine = anEngine({ blockTokens: BLOCK_TOKENS });
    const promptTokens = tokens(1, 4 * BLOCK_TOKENS);
    expect(compute(engine, { id: "a", promptTokens })).toBeUndefined();
    const changes = compute(engine, {
      id: "b",
      promptTokens: [...promptTokens, 99],
      promptChain: { keys: keysOfText("abcd").join(""), blockRatio: 16 / 65 },
    });
    expect(changes?.stored).toContain(keysOfText("ab").join(""));
  });

  test("are taken back when their blocks are given to others", () => {
    const engine = anEngine({ blockTokens: BLOCK_TOKENS, blockCount: 6 });
    const first = { promptTokens: tokens(1, 4 * BLOCK_TOKENS), promptChain: chainOfText("abcd") };
    compute(engine, { id: "a", ...first });
    const second = {
      promptTokens: tokens(500, 5 * BLOCK_TOKENS),
      promptChain: chainOfText("xyzuv"),
    };
    const changes = compute(engine, { id: "b", ...second });
    expect(changes?.stored).toBe(keysOfText("xyzuv").join(""));
    const removed = changes?.removed ?? "";
    // The ends go first.
    expect(removed).toContain(keysOfText("abcd").at(-1));
    expect(removed.length).toBeGreaterThanOrEqual(3 * 8);
  });

  test("that come and go between two reports are not told at all", () => {
    const engine = anEngine({ blockTokens: BLOCK_TOKENS, blockCount: 6 });
    for (const [id, from, text] of [
      ["a", 1, "abcde"],
      ["b", 500, "fghij"],
    ] as const) {
      const promptTokens = tokens(from, 5 * BLOCK_TOKENS);
      engine.submit(
        aGenerateRequest({ id, promptTokens, promptChain: chainOfText(text), outputTokensMax: 1 }),
        0,
      );
      runToEnd(engine);
    }
    const { stored = "", removed } = engine.takePrefixChanges() ?? {};
    expect(removed).toBe("");
    expect(stored).toContain(keysOfText("fghij").join(""));
    expect(stored).not.toContain(keysOfText("abcde").at(-1));
  });

  test("are all taken back with the cache", () => {
    const engine = anEngine({ blockTokens: BLOCK_TOKENS });
    compute(engine, {
      id: "a",
      promptTokens: tokens(1, 2 * BLOCK_TOKENS),
      promptChain: chainOfText("ab"),
    });
    engine.resetPrefixCache();
    expect(engine.takePrefixChanges()).toEqual({ stored: "", removed: keysOfText("ab").join("") });
  });

  test("are none where nothing is cached", () => {
    const engine = anEngine({ blockTokens: BLOCK_TOKENS, prefixCache: false });
    const promptTokens = tokens(1, 2 * BLOCK_TOKENS);
    expect(
      compute(engine, { id: "a", promptTokens, promptChain: chainOfText("ab") }),
    ).toBeUndefined();
  });
});
