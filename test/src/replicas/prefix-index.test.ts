import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { copyState } from "../../../src/base/plain-state.ts";
import type { PromptPrefix } from "../../../src/replicas/prefix-index.ts";
import { PrefixIndex } from "../../../src/replicas/prefix-index.ts";

/** The beginnings `a`, `ab`, `abc` … of a text, ten bytes a letter. */
function beginningsOf(text: string): PromptPrefix[] {
  return Array.from(text, (_, index) => ({
    key: text.slice(0, index + 1),
    bytes: 10 * (index + 1),
  }));
}

describe("PrefixIndex", () => {
  test("nothing is a hit before anything was sent", () => {
    expect(new PrefixIndex().hitBytes(beginningsOf("abc"))).toBe(0);
    expect(new PrefixIndex().hitBytes([])).toBe(0);
  });

  test("the longest beginning that was sent is the hit", () => {
    const index = new PrefixIndex();
    index.note(beginningsOf("abc"));
    expect(index.hitBytes(beginningsOf("abcd"))).toBe(30);
    expect(index.hitBytes(beginningsOf("abx"))).toBe(20);
    expect(index.hitBytes(beginningsOf("xbc"))).toBe(0);
  });

  test("what prompts have in common is forgotten last", () => {
    const index = new PrefixIndex(3);
    index.note(beginningsOf("abcde"));
    index.checkInvariants();
    expect(index.hitBytes(beginningsOf("abcde"))).toBe(30);
    index.note(beginningsOf("x"));
    expect(index.hitBytes(beginningsOf("abcde"))).toBe(20);
  });

  test("what was sent again is as good as new", () => {
    const index = new PrefixIndex(2);
    index.note(beginningsOf("a"));
    index.note(beginningsOf("b"));
    index.note(beginningsOf("a"));
    index.note(beginningsOf("c"));
    expect(index.hitBytes(beginningsOf("a"))).toBe(10);
    expect(index.hitBytes(beginningsOf("b"))).toBe(0);
  });

  test("to ask changes nothing", () => {
    const index = new PrefixIndex(2);
    index.note(beginningsOf("a"));
    index.note(beginningsOf("b"));
    index.hitBytes(beginningsOf("a"));
    index.note(beginningsOf("c"));
    expect(index.hitBytes(beginningsOf("a"))).toBe(0);
  });

  test("another process has nothing cached", () => {
    const index = new PrefixIndex();
    index.note(beginningsOf("abc"));
    index.forget();
    expect(index.hitBytes(beginningsOf("abc"))).toBe(0);
  });

  test("whatever is sent, the keys stay within their bound and the last prompt is a hit", () => {
    const texts = fc.array(fc.stringMatching(/^[ab]{1,6}$/), { minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(texts, fc.integer({ min: 1, max: 8 }), (sent, keysMax) => {
        const index = new PrefixIndex(keysMax);
        for (const text of sent) {
          index.note(beginningsOf(text));
          index.checkInvariants();
          const expected = 10 * Math.min(text.length, keysMax);
          expect(index.hitBytes(beginningsOf(text))).toBeGreaterThanOrEqual(expected);
        }
      }),
    );
  });

  test("a copy of its state goes on as it does", () => {
    const index = new PrefixIndex(3);
    index.note(beginningsOf("ab"));
    const revived = new PrefixIndex(3, copyState(index.state));
    for (const one of [index, revived]) one.note(beginningsOf("xy"));
    for (const text of ["a", "ab", "x", "xy"]) {
      expect(revived.hitBytes(beginningsOf(text))).toBe(index.hitBytes(beginningsOf(text)));
    }
  });
});
