import * as z from "zod";
import { parseCount, PATTERNS } from "./units.ts";

// In these schemas an issue's message is the rest of a sentence that begins with "expected": whoever
// reports it adds what was found. So each schema, also a mapping or a list, brings a text of its own.

/** What an editor is told of a notation, in words of JSON Schema; it takes whatever `read` takes. */
export type EditorSchema = Readonly<Record<string, unknown>>;

/** Makes a schema of a notation: `read` gives the value, or undefined if something else is there. */
export function notation<Value>(
  expected: string,
  read: (found: unknown) => Value | undefined,
  editor: EditorSchema = {},
) {
  return z
    .unknown()
    .transform((found, context): Value => {
      const value = read(found);
      if (value !== undefined) return value;
      context.issues.push({ code: "custom", message: expected, input: found });
      return z.NEVER;
    })
    .meta({ description: expected, ...editor });
}

/** A notation that only a text can be in. */
export function textNotation<Value>(
  expected: string,
  read: (text: string) => Value | undefined,
  editor: EditorSchema = {},
) {
  const readText = (found: unknown) => (typeof found === "string" ? read(found) : undefined);
  return notation(expected, readText, { type: "string", ...editor });
}

/**
 * One of a few words. What is near one of them is told which was probably meant: `choices` of the issue are for
 * whoever reports it.
 */
export function choiceNotation<Choice extends string>(
  choices: readonly Choice[],
  expected = `one of ${choices.join(", ")}`,
) {
  return z
    .unknown()
    .transform((found, context): Choice => {
      const choice = choices.find((candidate) => candidate === found);
      if (choice !== undefined) return choice;
      context.issues.push({ code: "custom", message: expected, params: { choices }, input: found });
      return z.NEVER;
    })
    .meta({ description: expected, type: "string", enum: [...choices] });
}

/** `true` or `false`. */
export function switchNotation() {
  return notation("true or false", readSwitch, { type: "boolean" });
}

function readSwitch(found: unknown): boolean | undefined {
  return typeof found === "boolean" ? found : undefined;
}

/** A whole number of something in a range, as a number or with a suffix: `64`, `1k`. */
export function countNotation(what: string, { min, max }: { min: number; max: number }) {
  const examples = ["64", "1k"].filter((text) => {
    const value = parseCount(text) ?? Number.NaN;
    return value >= min && value <= max;
  });
  const suchAs = examples.length > 0 ? `, such as ${examples.join(" or ")}` : "";
  const read = (found: unknown) => {
    const value = typeof found === "string" ? parseCount(found) : found;
    if (typeof value !== "number" || !Number.isInteger(value)) return undefined;
    return value >= min && value <= max ? value : undefined;
  };
  const asNumber = { type: "integer", minimum: min, maximum: max };
  const asText = { type: "string", pattern: PATTERNS.count };
  const expected = `a number of ${what} from ${min} to ${max}${suchAs}`;
  return notation(expected, read, { anyOf: [asNumber, asText] });
}

/** A mapping with fixed keys. */
export function section<Shape extends z.core.$ZodLooseShape>(shape: Shape) {
  return z.strictObject(shape, "a mapping");
}

/**
 * A mapping of at most `max` keys that the writer chooses. It becomes a Map, because `constructor` is
 * a fine name for a tenant. With `entry`, the name of one entry, it must not be empty.
 */
export function mappingOf<Key extends z.ZodType, Value extends z.ZodType>(
  key: Key,
  value: Value,
  {
    max,
    expected = `a mapping of at most ${max} entries`,
    entry,
  }: { max: number; expected?: string; entry?: string },
) {
  const entriesMin = entry === undefined ? 0 : 1;
  return z
    .preprocess(
      (found) => (isMapping(found) ? new Map(Object.entries(found)) : found),
      z.map(key, value, expected).min(entriesMin, `at least one ${entry}`).max(max, expected),
    )
    .meta({ description: expected, minProperties: entriesMin, maxProperties: max });
}

/** A list that must not be empty: what is not limited is left out. */
export function listOf<Item extends z.ZodType>(what: string, item: Item) {
  return z.array(item, `a list of ${what}`).min(1, `a list of at least one of its ${what}`);
}

/** Tells whether a parsed document has a mapping here. */
export function isMapping(found: unknown): found is Record<string, unknown> {
  return typeof found === "object" && found !== null && !Array.isArray(found);
}
