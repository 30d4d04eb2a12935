import { assert } from "./assert.ts";

/** Marks what JSON has no word for; an own key that begins with it makes an object's entries be told one by one. */
const TAG = "$";
const NUMBERS = new Map<string, number>([
  ["NaN", Number.NaN],
  ["Infinity", Number.POSITIVE_INFINITY],
  ["-Infinity", Number.NEGATIVE_INFINITY],
  ["-0", -0],
]);

/**
 * Writes plain state as one line of JSON that `decodeState` reads back as it was: maps in their order,
 * numbers beyond JSON's, `undefined`. A hole in an array comes back as `undefined`. Throws on what is
 * not data.
 */
export function encodeState(state: unknown): string {
  return JSON.stringify(toJson(state));
}

/** Reads what `encodeState` wrote; throws on any other text. */
export function decodeState(text: string): unknown {
  const parsed: unknown = JSON.parse(text);
  return fromJson(parsed);
}

function toJson(value: unknown): unknown {
  if (value === undefined) return { [TAG]: "undefined" };
  if (typeof value === "number") {
    const isPlain = Number.isFinite(value) && !Object.is(value, -0);
    return isPlain ? value : { [TAG]: Object.is(value, -0) ? "-0" : String(value) };
  }
  if (typeof value !== "object" || value === null) {
    assert(typeof value !== "function" && typeof value !== "symbol", "state holds no functions");
    assert(typeof value !== "bigint", "state holds no big integers");
    return value;
  }
  if (Array.isArray(value)) return Array.from(value, toJson);
  if (value instanceof Map) return { [TAG]: "map", entries: toJsonEntries([...value]) };
  assert(Object.getPrototypeOf(value) === Object.prototype, "state holds no instances of classes");
  const entries = Object.entries(value);
  if (entries.some(([key]) => key.startsWith(TAG))) {
    return { [TAG]: "object", entries: toJsonEntries(entries) };
  }
  return Object.fromEntries(entries.map(([key, entry]) => [key, toJson(entry)]));
}

function toJsonEntries(entries: readonly (readonly [unknown, unknown])[]): unknown[] {
  return entries.map(([key, entry]) => [toJson(key), toJson(entry)]);
}

function fromJson(json: unknown): unknown {
  if (typeof json !== "object" || json === null) return json;
  if (Array.isArray(json)) return json.map(fromJson);
  const tag: unknown = Object.hasOwn(json, TAG) ? Reflect.get(json, TAG) : undefined;
  if (tag === undefined) {
    return Object.fromEntries(Object.entries(json).map(([key, entry]) => [key, fromJson(entry)]));
  }
  if (tag === "undefined") return undefined;
  if (tag === "map") return new Map(fromJsonEntries(json));
  if (tag === "object") return Object.fromEntries(fromJsonEntries(json));
  const number = typeof tag === "string" ? NUMBERS.get(tag) : undefined;
  assert(number !== undefined, "a tag is one of those that state is written with");
  return number;
}

function fromJsonEntries(json: object): [PropertyKey, unknown][] {
  const entries: unknown = Reflect.get(json, "entries");
  assert(Array.isArray(entries), "a map or an object with a tag has entries");
  return entries.map((entry: unknown) => {
    assert(Array.isArray(entry) && entry.length === 2, "an entry is a key and a value");
    const [key, value]: unknown[] = entry;
    const decoded = fromJson(key);
    assert(typeof decoded === "string" || typeof decoded === "number", "a key is text or a number");
    return [decoded, fromJson(value)];
  });
}
