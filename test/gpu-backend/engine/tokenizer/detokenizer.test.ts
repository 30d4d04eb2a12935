import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Detokenizer } from "../../../../gpu-backend/engine/tokenizer/detokenizer.ts";
import { TokenBytes } from "../../../../gpu-backend/engine/tokenizer/token-bytes.ts";
import { loadTokenizer } from "../../../../gpu-backend/engine/tokenizer/tokenizer.ts";
import { BUNDLED_MODEL } from "./bundled-model.ts";

const TOKENIZER = await loadTokenizer(BUNDLED_MODEL);

/** A vocabulary of the 256 bytes, where a token's id is its byte. */
const BYTE_TOKENS = new TokenBytes(
  new Map(Array.from({ length: 256 }, (_, byte) => [byte, Uint8Array.of(byte)])),
);

function piecesOf(tokenBytes: TokenBytes, tokenIds: readonly number[]): string[] {
  const detokenizer = new Detokenizer(tokenBytes);
  return [...tokenIds.map((tokenId) => detokenizer.push(tokenId)), detokenizer.end()];
}

/** Text of letters, combining marks, flags, joined emoji and other planes. */
const text = fc.string({
  unit: fc.oneof(
    fc.constantFrom("👩‍👩‍👧", "🇫🇷", "✊🏽", "你好", "é", "a\u0301", " ", "\n", "\uFEFF", "𐍈", "Привет"),
    fc.string({ unit: "binary", minLength: 1, maxLength: 1 }),
  ),
});

/** Bytes near to UTF-8: whole characters, and stray, missing and overlong parts of them. */
const bytes = fc
  .array(
    fc.oneof(
      text.map((whole) => [...new TextEncoder().encode(whole)]),
      fc.array(fc.integer({ min: 0x80, max: 0xff }), { maxLength: 4 }),
      fc.constantFrom(
        [0xe0, 0x80],
        [0xed, 0xa0, 0x80],
        [0xf0, 0x80],
        [0xf4, 0x90],
        [0xf0, 0x9f, 0x98],
        [0xc2],
      ),
    ),
    { maxLength: 8 },
  )
  .map((parts) => parts.flat());

describe("Detokenizer", () => {
  test("the pieces of any tokens joined equal all their bytes decoded at once", () => {
    const tokenIds = fc.array(fc.nat({ max: TOKENIZER.vocabularyTokens + 10 }));
    fc.assert(
      fc.property(tokenIds, (ids) => {
        const all = Buffer.concat(ids.map((id) => TOKENIZER.tokenBytes.of(id)));
        const whole = new TextDecoder("utf-8", { ignoreBOM: true }).decode(all);
        expect(piecesOf(TOKENIZER.tokenBytes, ids).join("")).toBe(whole);
      }),
      { numRuns: 500 },
    );
  });

  test("each byte yields exactly what a streaming decoder is certain of by then", () => {
    fc.assert(
      fc.property(bytes, (all) => {
        const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
        const expected = all.map((byte) => decoder.decode(Uint8Array.of(byte), { stream: true }));
        expect(piecesOf(BYTE_TOKENS, all)).toEqual([...expected, decoder.decode()]);
      }),
      { numRuns: 2000 },
    );
  });

  test("no piece of a text's tokens holds half a character", () => {
    fc.assert(
      fc.property(text, (whole) => {
        const pieces = piecesOf(TOKENIZER.tokenBytes, TOKENIZER.encodeText(whole));
        expect(pieces.every((piece) => piece.isWellFormed())).toBe(true);
        expect(pieces.join("")).toBe(whole.toWellFormed());
        expect(pieces.at(-1)).toBe("");
      }),
    );
  });

  test("an emoji waits for its last byte", () => {
    expect(piecesOf(BYTE_TOKENS, [0xf0, 0x9f, 0x98, 0x80])).toEqual(["", "", "", "😀", ""]);
  });

  test("leading spaces stay", () => {
    const ids = TOKENIZER.encodeText(" leading");
    expect(piecesOf(TOKENIZER.tokenBytes, ids).join("")).toBe(" leading");
  });

  test("an answer that ends inside a character ends with U+FFFD, once", () => {
    expect(piecesOf(BYTE_TOKENS, [0x41, 0xe4, 0xbd])).toEqual(["A", "", "", "\uFFFD"]);
    const detokenizer = new Detokenizer(BYTE_TOKENS);
    detokenizer.push(0xe4);
    expect([detokenizer.end(), detokenizer.end()]).toEqual(["\uFFFD", ""]);
  });

  test("special tokens and ids without a token have no text, even inside a character", () => {
    const end = TOKENIZER.specialTokens.split("<|end|>")[0];
    const [first, ...rest] = TOKENIZER.encodeText("\u{10FFFF}");
    const ids = [first, end, TOKENIZER.vocabularyTokens + 7, ...rest].map(Number);
    expect(piecesOf(TOKENIZER.tokenBytes, ids).join("")).toBe("\u{10FFFF}");
  });
});
