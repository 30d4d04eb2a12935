import { describe, expect, test } from "vitest";
import { tellCachedAtMost, withCachedAtMost } from "../../../src/protocol/cached-at-most.ts";

const usageOf = (cachedTokens: number) => ({
  prompt_tokens: 900,
  completion_tokens: 3,
  prompt_tokens_details: { cached_tokens: cachedTokens },
});

describe("counts of an answer whose prompt another replica computed", () => {
  test("tell no more cached tokens than that one had", () => {
    expect(withCachedAtMost(usageOf(896), 64)).toEqual(usageOf(64));
    expect(withCachedAtMost(usageOf(32), 64)).toEqual(usageOf(32));
    const none = { prompt_tokens: 900, completion_tokens: 3 };
    expect(withCachedAtMost(none, 0)).toBe(none);
  });

  test("keep all else of the text as it was", () => {
    const text = `{"id":"x", "usage":${JSON.stringify({ ...usageOf(896), cost: 1.5 })},"n":12345678901234567890}`;
    const told = tellCachedAtMost(text, 64);
    expect(told).toContain('"n":12345678901234567890');
    expect(JSON.parse(told)).toEqual({ ...JSON.parse(text), usage: { ...usageOf(64), cost: 1.5 } });
    for (const other of [text.replace("896", "64"), '{"choices":[]}', '{"usage":null}', "[]"]) {
      expect(tellCachedAtMost(other, 64)).toBe(other);
    }
  });
});
