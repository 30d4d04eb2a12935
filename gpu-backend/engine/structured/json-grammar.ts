import { ALL_CHARACTERS, CharacterSet, characters, PLAIN_CHARACTERS } from "./character-set.ts";
import { type GrammarWriter, literal } from "./grammar-writer.ts";

/**
 * The rules of JSON as we write it: `", "` and `": "` between parts and no other whitespace. With
 * free whitespace a model that has lost its way writes blanks until its tokens are used up.
 */

const ASCII = new CharacterSet([[0, 0x7f]]);
const PLAIN_ASCII = PLAIN_CHARACTERS.minus(ALL_CHARACTERS.minus(ASCII));

const HEX = "[0-9A-Fa-f]";
/** Half a surrogate pair is no character, so `\ud83d` comes with its other half or not at all. */
const ESCAPES = [
  '"\\\\" ["\\\\/bfnrt]',
  `"\\\\u" [0-9A-CEFa-cef] ${HEX} ${HEX} ${HEX}`,
  `"\\\\u" [Dd] [0-7] ${HEX} ${HEX}`,
  `"\\\\u" [Dd] [89ABab] ${HEX} ${HEX} "\\\\u" [Dd] [C-Fc-f] ${HEX} ${HEX}`,
];

/** The rest of a string and its closing quote. */
export function stringRest(writer: GrammarWriter): string {
  return writer.shared("string_rest", () =>
    [
      '"\\""',
      ...PLAIN_CHARACTERS.toAlternatives("string_rest"),
      ...ESCAPES.map((escape) => `${escape} string_rest`),
    ].join(" | "),
  );
}

export function anyString(writer: GrammarWriter): string {
  return writer.shared("string", () => `"\\"" ${stringRest(writer)}`);
}

export function anyValue(writer: GrammarWriter): string {
  return writer.shared("value", () =>
    [
      anyObject(writer),
      anyArray(writer),
      anyString(writer),
      anyNumber(writer),
      '"true"',
      '"false"',
      '"null"',
    ].join(" | "),
  );
}

export function anyObject(writer: GrammarWriter): string {
  return writer.shared("object", () => {
    const string = anyString(writer);
    writer.shared("members", () => `"}" | ", " ${string} ": " value members`);
    anyValue(writer);
    return `"{" ("}" | ${string} ": " value members)`;
  });
}

export function anyArray(writer: GrammarWriter): string {
  return writer.shared("array", () => {
    writer.shared("items", () => '"]" | ", " value items');
    anyValue(writer);
    return '"[" ("]" | value items)';
  });
}

/** At most 16 digits before the point and two of exponent: no reader takes it for infinite. */
export function anyNumber(writer: GrammarWriter): string {
  return writer.shared(
    "number",
    () => `${anyInteger(writer)} ("." [0-9]{1,16})? ([eE] [+\\-]? [0-9]{1,2})?`,
  );
}

export function anyInteger(writer: GrammarWriter): string {
  return writer.shared("integer", () => '"-"? ("0" | [1-9] [0-9]{0,15})');
}

/** A value as JSON text with our separators. Throws nothing: the value came from JSON. */
export function writeJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(writeJson).join(", ")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(([key, member]) => {
    return `${JSON.stringify(key)}: ${writeJson(member)}`;
  });
  return `{${members.join(", ")}}`;
}

/**
 * A string that is none of `names`, without its opening quote. It holds no escapes, which could
 * spell such a name in another way.
 */
export function otherName(writer: GrammarWriter, names: readonly string[]): string {
  const restsByFirst = new Map<string, string[]>();
  for (const name of names) {
    const [first] = Array.from(name);
    // What is not plain is written by an escape, and so is no beginning of these.
    if (first === undefined || !PLAIN_CHARACTERS.has(first)) continue;
    restsByFirst.set(first, [...(restsByFirst.get(first) ?? []), name.slice(first.length)]);
  }
  const rest = writer.shared("name_rest", () =>
    ['"\\""', ...PLAIN_CHARACTERS.toAlternatives("name_rest")].join(" | "),
  );
  // Names are mostly ASCII; one rule for all that is not keeps the others a sixth as long.
  const firsts = [...restsByFirst.keys()];
  const isAscii = firsts.every((first) => ASCII.has(first));
  const others = (isAscii ? PLAIN_ASCII : PLAIN_CHARACTERS).minus(characters(firsts.join("")));
  const alternatives = others.toAlternatives(rest);
  if (isAscii) {
    const beyond = PLAIN_CHARACTERS.minus(ASCII).toAlternatives(rest).join(" | ");
    alternatives.push(writer.shared("name_beyond_ascii", () => beyond));
  }
  if (!names.includes("")) alternatives.push('"\\""');
  for (const [first, rests] of restsByFirst) {
    alternatives.push(`${literal(first)} ${otherName(writer, rests)}`);
  }
  return writer.rule(alternatives.join(" | "));
}
