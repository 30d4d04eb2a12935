import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { PromptLookup } from "../../../../gpu-backend/engine/speculation/prompt-lookup.ts";

describe("PromptLookup", () => {
  test("what followed the last three tokens before is guessed to follow now", () => {
    const lookup = new PromptLookup([9, 1, 2, 3, 4, 5, 6, 1, 2, 3]);
    expect(lookup.guess(2)).toEqual({ tokenIds: [4, 5], matchTokens: 3 });
  });

  test("two equal tokens are chance, and no guess", () => {
    expect(new PromptLookup([1, 2, 3, 4, 2, 3]).guess(4)).toBeUndefined();
    expect(new PromptLookup([1, 2, 3]).guess(4)).toBeUndefined();
    expect(new PromptLookup([]).guess(4)).toBeUndefined();
  });

  test("the longest match decides, the latest among equals", () => {
    const longest = new PromptLookup([8, 1, 2, 3, 40, 7, 1, 2, 3, 50, 9, 8, 1, 2, 3]);
    expect(longest.guess(1)).toEqual({ tokenIds: [40], matchTokens: 4 });
    const latest = new PromptLookup([1, 2, 3, 40, 9, 1, 2, 3, 50, 8, 1, 2, 3]);
    expect(latest.guess(1)).toEqual({ tokenIds: [50], matchTokens: 3 });
  });

  test("a text that repeats itself is guessed to go on with that", () => {
    expect(new PromptLookup([5, 6, 5, 6, 5, 6]).guess(5)?.tokenIds).toEqual([5, 6, 5, 6, 5]);
  });

  test("no guess is longer than was asked for", () => {
    expect(new PromptLookup([1, 2, 3, 4, 5, 1, 2, 3]).guess(0)).toBeUndefined();
    expect(new PromptLookup([1, 2, 3, 4, 5, 1, 2, 3]).guess(1)?.tokenIds).toHaveLength(1);
  });

  test("whenever it is asked, a growing text is guessed as the whole one is by the definition", () => {
    const tokens = fc.array(fc.nat(2), { minLength: 4, maxLength: 60 });
    fc.assert(
      fc.property(tokens, fc.array(fc.boolean(), { maxLength: 60 }), (all, asked) => {
        const text = all.slice(0, 3);
        const lookup = new PromptLookup(text);
        const guesses: unknown[] = [];
        const expected: unknown[] = [];
        for (const [index, token] of all.slice(3).entries()) {
          text.push(token);
          if (asked[index] === false) continue;
          guesses.push(lookup.guess(4));
          expected.push(guessByDefinition(text, 4));
        }
        expect(guesses).toEqual(expected);
      }),
    );
    expect.hasAssertions();
  });
});

/** Looks at every place, the latest 16 with the same last three tokens; matches count up to 16 tokens. */
function guessByDefinition(text: readonly number[], tokensMax: number) {
  const end = text.length - 1;
  let best: { place: number; length: number } | undefined;
  let tried = 0;
  for (let place = end - 1; place >= 2 && tried < 16; place--) {
    let length = 0;
    while (length < 16 && place >= length && text[place - length] === text[end - length]) length++;
    if (length < 3) continue;
    tried += 1;
    if (length > (best?.length ?? 0)) best = { place, length };
  }
  if (best === undefined) return undefined;
  const { place, length } = best;
  const period = end - place;
  const tokenIds = Array.from(
    { length: tokensMax },
    (_, index) => text[place + 1 + (index % period)],
  );
  return { tokenIds, matchTokens: length };
}
