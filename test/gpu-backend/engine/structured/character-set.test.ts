import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  ALL_CHARACTERS,
  CharacterSet,
  characters,
} from "../../../../gpu-backend/engine/structured/character-set.ts";

const codePoint = fc.oneof(
  fc.constantFrom(0, 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff),
  fc.integer({ min: 0, max: 0x10ffff }),
);
const range = fc
  .tuple(codePoint, codePoint)
  .map(([a, b]): [number, number] => (a < b ? [a, b] : [b, a]));
const ranges = fc.array(range, { minLength: 1, maxLength: 4 });

const isIn = (list: readonly (readonly [number, number])[], point: number) =>
  list.some(([first, last]) => first <= point && point <= last);

const SURROGATE = /^[\ud800-\udfff]$/;

test("union and minus are those of sets, and ranges stay apart and in order", () => {
  fc.assert(
    fc.property(ranges, ranges, codePoint, (one, other, point) => {
      const [a, b] = [new CharacterSet(one), new CharacterSet(other)];
      expect(isIn(a.union(b).ranges, point)).toBe(isIn(one, point) || isIn(other, point));
      expect(isIn(a.minus(b).ranges, point)).toBe(isIn(one, point) && !isIn(other, point));
      const all = a.union(b).ranges;
      for (const [index, [first]] of all.slice(1).entries()) {
        expect(first).toBeGreaterThan((all[index]?.[1] ?? 0) + 1);
      }
    }),
  );
});

test("the classes of bytes are the UTF-8 of exactly the characters in the set", () => {
  fc.assert(
    fc.property(ranges, fc.array(codePoint), (list, points) => {
      const set = new CharacterSet(list).minus(new CharacterSet([[0xd800, 0xdfff]]));
      // The classes are those of JavaScript too, once each byte is a character.
      const alternatives = set.toAlternatives("").map((text) => text.replaceAll(" ", ""));
      const regExp = new RegExp(`^(?:${alternatives.join("|")})$`, "s");
      const edges = list.flatMap(([first, last]) => [first - 1, first, last, last + 1]);
      for (const point of [...points, ...edges]) {
        if (point < 0 || point > 0x10ffff) continue;
        const character = String.fromCodePoint(point);
        if (SURROGATE.test(character)) continue;
        const bytes = Buffer.from(character).toString("latin1");
        expect(!set.isEmpty && regExp.test(bytes)).toBe(isIn(list, point));
      }
    }),
  );
});

test("a class of one byte beyond ASCII holds a second that no text has", () => {
  expect(characters("é").toAlternatives("next")).toEqual(["[\\xc3\\xff] [\\xa9\\xff] next"]);
  expect(characters("a").toAlternatives("next")).toEqual(["[\\x61] next"]);
});

test("all characters are those that UTF-8 can write", () => {
  expect(ALL_CHARACTERS.ranges).toEqual([
    [0, 0xd7ff],
    [0xe000, 0x10ffff],
  ]);
});
