import assert from "node:assert/strict";
import * as fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { ConstraintCompiler } from "../../../../gpu-backend/engine/structured/constraint-compiler.ts";
import { decoyTokens } from "../../../../gpu-backend/engine/structured/decoy-tokens.ts";
import { allowedTokens, tokenizer, vocabulary } from "../../../support/grammar-vocabulary.ts";

const compiler = new ConstraintCompiler({ vocabulary, grammarsMax: 1 });
afterAll(() => compiler.close());

const bytesOf = (id: number) =>
  Buffer.from(vocabulary.bytes.slice(vocabulary.ends[id - 1] ?? 0, vocabulary.ends[id]));

test("ordinary tokens keep their bytes, special ones and those that no text has lose them", () => {
  for (let id = 0; id < tokenizer.vocabularyTokens; id += 1) {
    const bytes = Buffer.from(tokenizer.tokenBytes.of(id));
    const isNeverText = bytes.some((byte) => byte === 0xc0 || byte === 0xc1 || byte > 0xf4);
    expect(bytesOf(id)).toEqual(isNeverText ? Buffer.alloc(0) : bytes);
  }
});

// Three of these tokens contain another one that sorts before them: the library alone misses them.
test.each(["}}</", "ining", "bbage", "}</", "age", " the"])(
  "the token %s is allowed where it continues the text, whatever else is forbidden",
  async (text) => {
    const [tokenId, ...others] = tokenizer.encodeText(text);
    assert(tokenId !== undefined && others.length === 0, "the text is one token");
    const opened = await compiler.open({
      kind: "json-schema",
      schema: JSON.stringify({ const: `${text}~` }),
    });
    assert(opened.kind === "opened");
    for (const quote of tokenizer.encodeText('"')) opened.constraint.accept(quote);
    expect(allowedTokens(opened.constraint)).toContain(tokenId);
    opened.constraint.dispose();
  },
);

/** What the library takes to begin with which, as far as it goes by the order of bytes. */
function mistakes(tokens: readonly Uint8Array[]): string[] {
  const beginnings: string[] = [];
  const mistaken: string[] = [];
  const sorted = tokens
    .map((token) => Buffer.from(token).toString("latin1"))
    .filter((token) => token !== "")
    .toSorted((a, b) => Buffer.compare(Buffer.from(a, "latin1"), Buffer.from(b, "latin1")));
  for (const token of sorted) {
    while (beginnings.length > 0 && !token.includes(beginnings.at(-1) ?? "")) beginnings.pop();
    if (beginnings.some((beginning) => !token.startsWith(beginning))) mistaken.push(token);
    beginnings.push(token);
  }
  return mistaken;
}

test("with its decoys no vocabulary has a token that the library mistakes", () => {
  const token = fc.string({
    unit: fc.constantFrom("a", "b", "c", "é"),
    minLength: 1,
    maxLength: 5,
  });
  let mistakesFound = 0;
  fc.assert(
    fc.property(fc.uniqueArray(token, { maxLength: 40 }), (texts) => {
      const tokens = texts.map((text) => Buffer.from(text));
      mistakesFound += mistakes(tokens).length;
      expect(mistakes([...tokens, ...decoyTokens(tokens)])).toEqual([]);
    }),
    { numRuns: 500 },
  );
  expect(mistakesFound).toBeGreaterThan(100);
});
