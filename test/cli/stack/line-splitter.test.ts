import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { LineSplitter } from "../../../cli/stack/line-splitter.ts";

function split(pieces: readonly string[], lengthMax = 100): readonly string[] {
  const splitter = new LineSplitter(lengthMax);
  return [...pieces.flatMap((piece) => splitter.push(piece)), ...splitter.end()];
}

describe("LineSplitter", () => {
  test("both kinds of line ends count, and none is part of its line", () => {
    expect(split(["a\nb\r\n\nc\r", "\nd"])).toEqual(["a", "b", "", "c", "d"]);
  });

  test("a text that ends its last line has no line after it", () => {
    expect(split(["a\n"])).toEqual(["a"]);
    expect(split([""])).toEqual([]);
  });

  test("a line that is too long keeps its beginning, and the next line is whole", () => {
    expect(split(["12345", "678", "90\nab\n"], 6)).toEqual(["123456", "ab"]);
  });

  test("however a text is cut, its lines are the same", () => {
    const texts = fc.array(fc.string({ unit: fc.constantFrom("a", "\n", "\r"), maxLength: 8 }));
    fc.assert(
      fc.property(texts, (pieces) => {
        expect(split(pieces)).toEqual(split([pieces.join("")]));
      }),
    );
  });
});
