import { Tokenizer as IndependentTokenizer } from "@huggingface/tokenizers";
import * as fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { loadTokenizer, Tokenizer } from "../../../../gpu-backend/engine/tokenizer/tokenizer.ts";
import { TokenizerFile } from "../../../../gpu-backend/engine/tokenizer/tokenizer-files.ts";
import { hostileText, MARKERS, ordinaryText } from "./arbitrary-text.ts";
import { BUNDLED_MODEL, bundledTokenizerJson, goldenPrompts, tokenCases } from "./bundled-model.ts";

const TOKENIZER = await loadTokenizer(BUNDLED_MODEL);
const SPECIAL_IDS = [0, 1, 2, 3, 4, 5, 6];

/** Encodes text of our own, in which markers are special. */
function encodeTrusted(tokenizer: Tokenizer, text: string): number[] {
  return tokenizer.encodePieces(tokenizer.specialTokens.split(text));
}

/** The bundled tokenizer with something else about it. */
function alteredTokenizer(alter: (json: ReturnType<typeof bundledTokenizerJson>) => void) {
  const json = bundledTokenizerJson();
  alter(json);
  return new Tokenizer(TokenizerFile.parse(json));
}

/**
 * Counts the merges that are looked up while a text is encoded. Each costs one step of a heap at
 * most, so they are the work, and unlike time they are the same on a busy machine.
 */
function mergesLookedUp(text: string): number {
  const lookUps = vi.spyOn(Map.prototype, "get");
  try {
    TOKENIZER.encodeText(text);
    return lookUps.mock.calls.length;
  } finally {
    lookUps.mockRestore();
  }
}

describe("Tokenizer", () => {
  test("recorded texts have the ids that the trainer's tokenizer gave them", () => {
    const cases = tokenCases();
    expect(cases).toHaveLength(50);
    for (const { text, ids } of cases) expect(encodeTrusted(TOKENIZER, text)).toEqual(ids);
  });

  test("answers of the bundled model read as its trainer recorded them", () => {
    for (const { greedy, greedy_stop, text } of goldenPrompts()) {
      expect(TOKENIZER.decode(greedy.slice(0, greedy_stop ?? greedy.length))).toBe(text);
    }
  });

  test("trusted text encodes as the library encodes it with all tokens known", () => {
    const independent = new IndependentTokenizer(bundledTokenizerJson(), {});
    fc.assert(
      fc.property(hostileText, (text) => {
        const { ids } = independent.encode(text, { add_special_tokens: false });
        expect(encodeTrusted(TOKENIZER, text)).toEqual(ids);
      }),
    );
  });

  test("decoding gives back every text that was encoded", () => {
    fc.assert(
      fc.property(fc.oneof(ordinaryText, hostileText), (text) => {
        expect(TOKENIZER.decode(TOKENIZER.encodeText(text))).toBe(text);
      }),
    );
  });

  test("a lone surrogate encodes as U+FFFD", () => {
    expect(TOKENIZER.encodeText("a\uD83D!")).toEqual(TOKENIZER.encodeText("a\uFFFD!"));
  });

  test("the empty text has no tokens", () => {
    expect(TOKENIZER.encodeText("")).toEqual([]);
    expect(TOKENIZER.decode([])).toBe("");
  });

  test("the vocabulary is the model's", () => {
    expect(TOKENIZER.vocabularyTokens).toBe(4096);
    expect(TOKENIZER.specialTokens.contents()).toEqual(MARKERS);
  });

  describe("text is only text", () => {
    test("no text encodes to a special token", () => {
      fc.assert(
        fc.property(hostileText, (text) => {
          const ids = TOKENIZER.encodeText(text);
          expect(ids.filter((id) => SPECIAL_IDS.includes(id))).toEqual([]);
        }),
      );
    });

    test("a special token that the vocabulary could spell is still not reached by text", () => {
      const ordinary = TOKENIZER.encodeText(" The");
      expect(ordinary).toHaveLength(1);
      const [id] = ordinary.map(Number);
      const asWritten = [" The", "ĠThe"];
      for (const [content, ignore_merges] of asWritten.flatMap((text) => [
        [text, false] as const,
        [text, true] as const,
      ])) {
        const special = alteredTokenizer((json) => {
          json.model.ignore_merges = ignore_merges;
          json.added_tokens.push({ id: Number(id), content, special: true });
        });
        expect(special.encodeText(" The")).not.toContain(id);
        expect(special.decode(special.encodeText(" The end"))).toBe(" The end");
      }
    });

    test("merges written as strings are read as pairs are", () => {
      const merged = alteredTokenizer((json) => {
        json.model.merges = json.model.merges.map((merge) =>
          typeof merge === "string" ? merge : merge.join(" "),
        );
      });
      for (const { text } of tokenCases()) {
        expect(merged.encodeText(text)).toEqual(TOKENIZER.encodeText(text));
      }
    });

    test("an added token that is not special stays a word of its own", () => {
      const id = TOKENIZER.vocabularyTokens;
      const withTag = alteredTokenizer((json) => {
        json.added_tokens.push({ id, content: "<think>" });
      });
      expect(withTag.vocabularyTokens).toBe(id + 1);
      expect(withTag.encodeText("<think>")).toEqual([id]);
      expect(withTag.decode([id])).toBe("<think>");
    });
  });

  describe("fewestTokens", () => {
    const words = fc
      .array(fc.nat({ max: TOKENIZER.vocabularyTokens - 1 }))
      .map((ids) => TOKENIZER.decode(ids));

    test("never exceeds what pieces encode to", () => {
      const pieces = fc.array(fc.oneof(fc.constantFrom(...SPECIAL_IDS), words, hostileText));
      const composing = alteredTokenizer((json) => {
        json.normalizer = { type: "NFC" };
      });
      fc.assert(
        fc.property(pieces, (mixed) => {
          for (const tokenizer of [TOKENIZER, composing]) {
            const tokens = tokenizer.encodePieces(mixed).length;
            expect(tokenizer.fewestTokens(mixed)).toBeLessThanOrEqual(tokens);
          }
        }),
      );
    });

    test("counts text that a normalizer shortens by its short form", () => {
      const composing = alteredTokenizer((json) => {
        json.normalizer = { type: "NFC" };
      });
      const [composed, decomposed] = ["각".repeat(100), "각".normalize("NFD").repeat(100)];
      expect(composing.fewestTokens([decomposed])).toBe(composing.fewestTokens([composed]));
    });

    test("is exact for special tokens and for the longest token of all", () => {
      const longest = Array.from({ length: TOKENIZER.vocabularyTokens }, (_, id) => id).reduce(
        (best, id) =>
          TOKENIZER.tokenBytes.of(id).length > TOKENIZER.tokenBytes.of(best).length ? id : best,
      );
      const text = TOKENIZER.decode([longest]);
      // Sums of fractions that are a little too large would show at some of these counts.
      for (let count = 1; count <= 500; count += 1) {
        expect(TOKENIZER.fewestTokens([text.repeat(count)])).toBe(count);
      }
      expect(TOKENIZER.fewestTokens([0, 3, 5])).toBe(3);
      expect(TOKENIZER.fewestTokens([])).toBe(0);
    });

    test("grows with any text, so that no text is too long to be refused", () => {
      for (const unit of ["a", "ab", " ", "的", "😀", "\u0000", "|"]) {
        expect(TOKENIZER.fewestTokens([unit.repeat(100_000)])).toBeGreaterThan(2048);
      }
    });
  });

  test("four times the text costs four times the work, however nasty it is", () => {
    for (const unit of ["a", "ab", "的"]) {
      const short = unit.repeat(8192 / unit.length);
      const ratio = mergesLookedUp(short.repeat(4)) / mergesLookedUp(short);
      expect(ratio).toBeGreaterThan(3.9);
      expect(ratio).toBeLessThan(4.1);
    }
  });
});
