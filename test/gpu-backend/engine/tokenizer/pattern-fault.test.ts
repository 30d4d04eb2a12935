import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { patternFault } from "../../../../gpu-backend/engine/tokenizer/pattern-fault.ts";

/** What tokenizers of models that are served cut words by, as their files have it. */
const PUBLIC = {
  "GPT-2": "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
  "Llama 3":
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  "Qwen 2 and 3":
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  "Mistral, tekken":
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  "GPT-4o":
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  "with possessive parts":
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s",
  BLOOM: " ?[^(\\s|[.,!?…。，、।۔،])]+",
  "DeepSeek, of Llama's kind": "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿ]+",
};

const HOSTILE: readonly (readonly [pattern: string, fault: string])[] = [
  ["(\\p{L}+)+!", "a group that is repeated"],
  ["(?:a|a)*!", "a group that is repeated"],
  ["(?:a?){40}a{40}", "a group that is repeated"],
  ["((a+))*", "a group that is repeated"],
  ["(?=(a|aa)+!)", "a group that is repeated"],
  ["(a|b)\\1", "a reference to a group"],
  ["(?<x>a)\\k<x>", "a reference to a group"],
  ["a*a*!", "several parts of any length before one that must match"],
  ["\\p{L}+(?:x|\\p{L}*)!", "several parts of any length before one that must match"],
  ["(?:\\p{L}+)(?=\\p{L}+!)", "several parts of any length before one that must match"],
  ["b|a{0,1000}a{2,}!", "several parts of any length before one that must match"],
  ["a*a*(?!b?)", "several parts of any length before one that must match"],
  ["a*[[b]a]*(?!\\S)", "several parts of any length before one that must match"],
  [`${"a?".repeat(40)}${"a".repeat(40)}`, "more than 1000 ways to match"],
  [`${"(?:a|a)".repeat(40)}!`, "more than 1000 ways to match"],
  ["a{2}{3}", "a part that is repeated twice over"],
  ["a+*", "a part that is repeated twice over"],
  [`${"(".repeat(100_000)}a`, "groups nested too deeply"],
  ["(a", "a group without an end"],
  ["a)", "a group that ends before it begins"],
  ["[a", "a set of characters without an end"],
];

describe("patternFault()", () => {
  test.each(Object.entries(PUBLIC))("finds none in the pattern of %s", (_, pattern) => {
    expect(patternFault(pattern)).toBeUndefined();
  });

  test.each(HOSTILE)("finds that %s may never end", (pattern, fault) => {
    expect(patternFault(pattern)).toBe(fault);
  });

  test("finds nothing in a set of characters or behind a backslash", () => {
    for (const pattern of ["[(a+)+]", "\\(a+\\)+", "[^[(]a*)*]+", "[\\](a+)+]", "\\p{L}+", "a{b"]) {
      expect(patternFault(pattern)).toBeUndefined();
    }
  });

  test("lets through no pattern whose work grows faster than the square of the text", () => {
    const atom = fc.constantFrom("a", "[ab]", "\\p{L}", "b", "!", "\\s", "(?!\\S)");
    const quantifier = fc.constantFrom("", "", "?", "*", "+", "{0,3}", "+?");
    const item = fc
      .tuple(atom, quantifier)
      .map(([one, times]) => (one.startsWith("(") ? one : one + times));
    const { group } = fc.letrec<{ group: string; part: string }>((tie) => ({
      part: fc.oneof({ maxDepth: 2 }, item, tie("group")),
      group: fc
        .tuple(
          fc.array(fc.array(tie("part"), { minLength: 1, maxLength: 4 }), {
            minLength: 1,
            maxLength: 3,
          }),
          fc.constantFrom("", "", "", "", "?", "+"),
        )
        .map(([ways, times]) => `(?:${ways.map((parts) => parts.join("")).join("|")})${times}`),
    }));
    let passed = 0;
    fc.assert(
      fc.property(group, fc.constantFrom("a", "ab", "aab", "a a"), (pattern, unit) => {
        if (patternFault(pattern) !== undefined) return;
        passed += 1;
        const regex = new RegExp(pattern, "gu");
        // Of the third power it would be minutes.
        const text = `${unit.repeat(4_000 / unit.length)}.`;
        const startMs = performance.now();
        expect([...text.matchAll(regex)].length).toBeLessThanOrEqual(text.length + 1);
        expect(performance.now() - startMs).toBeLessThan(10_000);
      }),
      { numRuns: 1_000, seed: 7 },
    );
    expect(passed).toBeGreaterThan(100);
  });
});
