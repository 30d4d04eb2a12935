import * as z from "zod";
import { parseCount } from "./units.ts";

// In these schemas an issue's message is the rest of a sentence that begins with "expected": whoever
// reports it adds what was found. So each schema, also a mapping or a list, brings a text of its own.

/** Makes a schema of a notation: `read` gives the value, or undefined if something else is there. */
export function notation<Value>(expected: string, read: (found: unknown) => Value | undefined) {
  return z.unknown().transform((found, context): Value => {
    const value = read(found);
    if (value !== undefined) return value;
    context.issues.push({ code: "custom", message: expected, input: found });
    return z.NEVER;
  });
}

/** A notation that only a text can be in. */
export function textNotation<Value>(expected: string, read: (text: string) => Value | undefined) {
  return notation(expected, (found) => (typeof found === "string" ? read(found) : undefined));
}

/** A whole number of something in a range, as a number or with a suffix: `64`, `1k`. */
export function countNotation(what: string, { min, max }: { min: number; max: number }) {
  const examples = ["64", "1k"].filter((text) => {
    const value = parseCount(text) ?? Number.NaN;
    return value >= min && value <= max;
  });
  const suchAs = examples.length > 0 ? `, such as ${examples.join(" or ")}` : "";
  return notation(`a number of ${what} from ${min} to ${max}${suchAs}`, (found) => {
    const value = typeof found === "string" ? parseCount(found) : found;
    if (typeof value !== "number" || !Number.isInteger(value)) return undefined;
    return value >= min && value <= max ? value : undefined;
  });
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
  return z.preprocess(
    (found) => (isMapping(found) ? new Map(Object.entries(found)) : found),
    z
      .map(key, value, expected)
      .min(entry === undefined ? 0 : 1, `at least one ${entry}`)
      .max(max, expected),
  );
}

/** A list that must not be empty: what is not limited is left out. */
export function listOf<Item extends z.ZodType>(what: string, item: Item) {
  return z.array(item, `a list of ${what}`).min(1, `a list of at least one of its ${what}`);
}

/** Tells whether a parsed document has a mapping here. */
export function isMapping(found: unknown): found is Record<string, unknown> {
  return typeof found === "object" && found !== null && !Array.isArray(found);
}
