import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { MarkerGuard } from "../../../../gpu-backend/engine/tokenizer/marker-guard.ts";
import { hostileText, MARKERS } from "./arbitrary-text.ts";

const GUARD = new MarkerGuard(MARKERS, ["<|user|>", "<tool_call>"]);

function exchangeFor(guard: MarkerGuard, texts: readonly string[]) {
  const exchange = guard.exchangeFor(texts);
  if (exchange === undefined) throw new Error("Expected unused private-use characters");
  return exchange;
}

/** Every private-use character of the basic plane but the last few. */
const privateUse = (unused: number) =>
  Array.from({ length: 6400 - unused }, (_, index) => String.fromCharCode(0xe000 + index)).join("");

describe("MarkerGuard", () => {
  test("a protected text has as many characters, none of them a marker's, and is restored", () => {
    fc.assert(
      fc.property(fc.array(hostileText), (texts) => {
        const { protect, restore } = exchangeFor(GUARD, texts);
        for (const text of texts) {
          expect(protect(text)).toHaveLength(text.length);
          expect(MARKERS.filter((marker) => protect(text).includes(marker))).toEqual([]);
          expect(restore(protect(text))).toBe(text);
        }
      }),
    );
  });

  test("protected texts make no marker even when parts of them are cut out and joined", () => {
    fc.assert(
      fc.property(fc.array(hostileText), fc.infiniteStream(fc.boolean()), (texts, keeps) => {
        const { protect } = exchangeFor(GUARD, texts);
        const kept = Array.from(texts.map(protect).join("")).filter(() => keeps.next().value);
        expect(MARKERS.filter((marker) => kept.join("").includes(marker))).toEqual([]);
      }),
    );
  });

  test("the guard is a character that the template looks for nowhere", () => {
    const { protect } = exchangeFor(GUARD, []);
    expect(protect("<think></think>")).toBe("<think></think>");
    expect(protect("a|b")).not.toBe("a|b");
  });

  test("a template that builds its markers itself still has a guard", () => {
    const guard = new MarkerGuard(MARKERS, ["<|", "|>"]);
    const { protect } = exchangeFor(guard, []);
    expect(protect("<|end|>")).not.toContain("<");
  });

  test("a marker of letters only is guarded by a letter", () => {
    const { protect, restore } = exchangeFor(new MarkerGuard(["EOS"], ["EOS"]), []);
    expect(protect("EOS")).not.toBe("EOS");
    expect(restore(protect("THE EOS"))).toBe("THE EOS");
  });

  test("markers that share no character have a guard each", () => {
    const markers = ["<s>", "[INST]", "<｜end｜>"];
    const { protect, restore } = exchangeFor(new MarkerGuard(markers, ["[INST]"]), []);
    for (const marker of markers) expect(protect(marker)).not.toBe(marker);
    expect(restore(protect(markers.join("")))).toBe(markers.join(""));
  });

  test("stand-ins occur neither in the texts nor in the template", () => {
    const guard = new MarkerGuard(["|"], ["\uE000"]);
    const { protect, restore } = exchangeFor(guard, ["\uE001", "\uE003"]);
    expect(protect("|")).toBe("\uE002");
    expect(restore("\uE000\uE001\uE002\uE003")).toBe("\uE000\uE001|\uE003");
  });

  test("texts may use all private-use characters but one, and not that one too", () => {
    const guard = new MarkerGuard(["|"], []);
    expect(exchangeFor(guard, [privateUse(1)]).protect("|")).toBe("\uF8FF");
    expect(guard.exchangeFor([privateUse(0)])).toBeUndefined();
  });
});
