import * as fc from "fast-check";

/** The texts of the bundled model's special tokens. */
export const MARKERS = [
  "<|bos|>",
  "<|eos|>",
  "<|system|>",
  "<|user|>",
  "<|assistant|>",
  "<|end|>",
  "<|tool|>",
];

const strange = fc.oneof(
  fc.constantFrom("👩‍👩‍👧", "🇫🇷", "✊🏽", "你好", "é", "a\u0301", "\uFEFF", "𐍈", "Привет"),
  fc.constantFrom(" ", "  ", "\n", "\t", "\r\n", "\u00A0", "\u3000"),
  fc.constantFrom("hello", " world", "The", " 12:30", "{}", '"', "\\", "</think>", "<b>", "a|b"),
  fc.string({ unit: "binary", minLength: 1, maxLength: 2 }),
);

/** Text of many scripts, white space and control characters, in which no marker stands. */
export const ordinaryText = fc
  .array(strange, { maxLength: 12 })
  .map((parts) => parts.join("").toWellFormed())
  .filter((text) => !MARKERS.some((marker) => text.includes(marker)));

/** Text that tries to pass for the template's: markers, parts of them, and private-use characters. */
export const hostileText = fc
  .array(
    fc.oneof(
      fc.constantFrom(...MARKERS),
      fc.constantFrom(...MARKERS).chain((marker) =>
        fc.nat({ max: marker.length }).chain((cut) => {
          const [head, tail] = [marker.slice(0, cut), marker.slice(cut)];
          return fc.constantFrom(head, tail, `${head}/think${tail}`, `${head}</think>${tail}`);
        }),
      ),
      fc.constantFrom("\uE000", "\uE001", "\uE002", "\uF8FF", "|", "<", ">"),
      strange,
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join("").toWellFormed());
