import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { StopStrings } from "../../../../gpu-backend/engine/tokenizer/stop-strings.ts";

/** Characters of which stop strings overlap often, one of them two code units long. */
const CHARACTERS = ["a", "b", "é", "😀"];
const text = (maxLength: number, minLength = 0) =>
  fc.string({ unit: fc.constantFrom(...CHARACTERS), minLength, maxLength });
const stopLists = fc.array(text(4, 1), { minLength: 1, maxLength: 4 });

/** The definition: try every end from the front, and at each end the stop strings in order. */
function cutNaively(whole: string, stops: readonly string[]) {
  for (let end = 1; end <= whole.length; end += 1) {
    const stop = stops.find((candidate) => whole.slice(0, end).endsWith(candidate));
    if (stop !== undefined) return { text: whole.slice(0, end - stop.length), stopped: true };
  }
  return { text: whole, stopped: false };
}

/** How much of the end of `seen` could still become a stop string. */
function openLength(seen: string, stops: readonly string[]): number {
  const lengths = stops.flatMap((stop) =>
    Array.from({ length: stop.length - 1 }, (_, index) => index + 1).filter((length) =>
      seen.endsWith(stop.slice(0, length)),
    ),
  );
  return Math.max(0, ...lengths);
}

function cutInPieces(pieces: readonly string[], stops: readonly string[]) {
  const stopStrings = new StopStrings(stops);
  const results = pieces.map((piece) => stopStrings.push(piece));
  const stopped = results.at(-1)?.stopped ?? false;
  return { text: results.map((result) => result.text).join("") + stopStrings.end(), stopped };
}

/** Every way to cut a text between its characters. */
function splitsOf(whole: string): string[][] {
  const characters = Array.from(whole);
  return Array.from({ length: 2 ** Math.max(0, characters.length - 1) }, (_, cuts) =>
    characters.reduce<string[]>((pieces, character, index) => {
      const isCut = index === 0 || ((cuts >> (index - 1)) & 1) === 1;
      if (isCut) return [...pieces, character];
      return [...pieces.slice(0, -1), (pieces.at(-1) ?? "") + character];
    }, []),
  );
}

/** The definition where strings that end within `exemptLength` do not count. */
function cutBehind(whole: string, stops: readonly string[], exemptLength: number) {
  for (let end = exemptLength + 1; end <= whole.length; end += 1) {
    const stop = stops.find((candidate) => whole.slice(0, end).endsWith(candidate));
    if (stop !== undefined) return { withoutStop: whole.slice(0, end - stop.length), end };
  }
  return { withoutStop: whole, end: whole.length };
}

describe("StopStrings", () => {
  test("strings that end in an exempt piece stay, those that only begin there are cut", () => {
    fc.assert(
      fc.property(text(5), text(6), stopLists, fc.boolean(), (exempt, rest, stops, isIncluded) => {
        const whole = exempt + rest;
        const { withoutStop, end } = cutBehind(whole, stops, exempt.length);
        for (const pieces of splitsOf(rest)) {
          const stopStrings = new StopStrings(stops, { isIncluded });
          const told = [
            stopStrings.push(exempt, true),
            ...pieces.map((piece) => stopStrings.push(piece)),
          ];
          const all = told.map((result) => result.text).join("") + stopStrings.end();
          const wanted = isIncluded ? whole.slice(0, end) : withoutStop;
          expect(all).toBe(wanted);
        }
      }),
    );
  });

  test("a string that is exempt is not held back, but for what of it could begin another", () => {
    expect(new StopStrings(["ab"]).push("xab", true).text).toBe("xab");
    expect(new StopStrings(["aba"]).push("xaba", true).text).toBe("xab");
  });

  test("every split of a text is cut as the definition says", () => {
    fc.assert(
      fc.property(text(7), stopLists, (whole, stops) => {
        const expected = cutNaively(whole, stops);
        for (const pieces of splitsOf(whole)) {
          expect(cutInPieces(pieces, stops)).toEqual(expected);
        }
      }),
    );
  });

  test("long texts are cut as the definition says", () => {
    fc.assert(
      fc.property(fc.array(text(20), { maxLength: 20 }), stopLists, (pieces, stops) => {
        expect(cutInPieces(pieces, stops)).toEqual(cutNaively(pieces.join(""), stops));
      }),
    );
  });

  test("only what could still become a stop string is held back", () => {
    fc.assert(
      fc.property(fc.array(text(6), { maxLength: 12 }), stopLists, (pieces, stops) => {
        const stopStrings = new StopStrings(stops);
        let seen = "";
        let sent = "";
        for (const piece of pieces) {
          const result = stopStrings.push(piece);
          seen += piece;
          sent += result.text;
          if (result.stopped) return;
          expect(sent).toBe(seen.slice(0, seen.length - openLength(seen, stops)));
        }
      }),
    );
  });

  test("without stop strings all text passes at once", () => {
    const stopStrings = new StopStrings([]);
    expect(stopStrings.push("anything")).toEqual({ text: "anything", stopped: false });
    expect(stopStrings.end()).toBe("");
  });

  test("the string that completes first wins over one that began before it", () => {
    expect(cutInPieces(["abcdef"], ["bcdef", "cd"])).toEqual({ text: "ab", stopped: true });
  });

  test("of two that complete together the one listed first wins", () => {
    expect(cutInPieces(["xab"], ["b", "ab"]).text).toBe("xa");
    expect(cutInPieces(["xab"], ["ab", "b"]).text).toBe("x");
  });

  test("text after the stop string is dropped, in the same piece and later", () => {
    const stopStrings = new StopStrings(["END"]);
    expect(stopStrings.push("text EN")).toEqual({ text: "text ", stopped: false });
    expect(stopStrings.push("D more")).toEqual({ text: "", stopped: true });
    expect(stopStrings.push("more")).toEqual({ text: "", stopped: true });
    expect(stopStrings.end()).toBe("");
  });

  test("a partial match that breaks off is sent", () => {
    const stopStrings = new StopStrings(["\n\nUser:"]);
    expect(stopStrings.push("a\n\nUse")).toEqual({ text: "a", stopped: false });
    expect(stopStrings.push("ful")).toEqual({ text: "\n\nUseful", stopped: false });
  });

  test("a partial match that inherits a shorter one keeps just that", () => {
    const stopStrings = new StopStrings(["aab"]);
    expect(stopStrings.push("aa").text).toBe("");
    expect(stopStrings.push("a").text).toBe("a");
    expect(stopStrings.push("b")).toEqual({ text: "", stopped: true });
  });

  test("a partial match at the end of an answer is sent by end(), once", () => {
    const stopStrings = new StopStrings(["STOP"]);
    expect(stopStrings.push("go ST").text).toBe("go ");
    expect(stopStrings.end()).toBe("ST");
    expect(stopStrings.end()).toBe("");
  });
});
