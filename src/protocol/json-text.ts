import { assert } from "../base/assert.ts";

/** One member of an object as it stands in the text: `"key": value`. */
interface Member {
  readonly key: string;
  /** The member without the whitespace around it. */
  readonly text: string;
}

/**
 * Sets or removes members of the object that `json` is, and leaves the text of all others as it
 * was. Parsing and writing anew would round integers above 2^53, such as a seed, and would let
 * one of two members with the same key win here and the other one at the reader.
 *
 * A member is set to the given JSON text, in its place or else at the end; `undefined` removes it.
 * Of members with the same key one is left. `json` must already have been parsed as an object.
 */
export function editMembers(
  json: string,
  edits: Readonly<Record<string, string | undefined>>,
): string {
  const pending = new Map(Object.entries(edits));
  const kept: string[] = [];
  for (const { key, text } of membersOf(json)) {
    if (!Object.hasOwn(edits, key)) {
      kept.push(text);
      continue;
    }
    const value = pending.get(key);
    pending.delete(key);
    if (value !== undefined) kept.push(`${JSON.stringify(key)}:${value}`);
  }
  for (const [key, value] of pending) {
    if (value !== undefined) kept.push(`${JSON.stringify(key)}:${value}`);
  }
  return `{${kept.join(",")}}`;
}

function membersOf(json: string): Member[] {
  const members: Member[] = [];
  let at = skipWhitespace(json, skipWhitespace(json, 0) + 1);
  while (json[at] !== "}") {
    assert(json[at] === '"', "the text was parsed as a JSON object before it is edited");
    const keyEnd = stringEnd(json, at);
    const valueStart = skipWhitespace(json, skipWhitespace(json, keyEnd) + 1);
    const end = valueEnd(json, valueStart);
    members.push({ key: decodeString(json.slice(at, keyEnd)), text: json.slice(at, end) });
    at = skipWhitespace(json, end);
    if (json[at] === ",") at = skipWhitespace(json, at + 1);
  }
  return members;
}

function skipWhitespace(json: string, from: number): number {
  let at = from;
  while (json[at] === " " || json[at] === "\n" || json[at] === "\r" || json[at] === "\t") at++;
  return at;
}

/** Returns the place behind the string that opens at `quoteAt`. */
function stringEnd(json: string, quoteAt: number): number {
  let end = json.indexOf('"', quoteAt + 1);
  while (end >= 0 && isEscaped(json, end)) end = json.indexOf('"', end + 1);
  assert(end >= 0, "a string of parsed JSON has an end");
  return end + 1;
}

/** A quote behind an odd number of backslashes belongs to the string. */
function isEscaped(json: string, quoteAt: number): boolean {
  let backslashStart = quoteAt;
  while (json[backslashStart - 1] === "\\") backslashStart--;
  return (quoteAt - backslashStart) % 2 === 1;
}

/** A comma or a bracket outside all strings and all brackets of the value ends it. */
function valueEnd(json: string, valueStart: number): number {
  let depth = 0;
  let at = valueStart;
  // Whitespace behind the value is not part of it.
  let end = valueStart;
  while (at < json.length) {
    const character = json[at];
    if (character === '"') {
      at = stringEnd(json, at);
      end = at;
      continue;
    }
    if (depth === 0 && (character === "," || character === "}")) return end;
    if (character === "{" || character === "[") depth++;
    else if (character === "}" || character === "]") depth--;
    at++;
    if (character !== undefined && character > " ") end = at;
  }
  throw new Error("A value of parsed JSON has an end");
}

function decodeString(literal: string): string {
  if (!literal.includes("\\")) return literal.slice(1, -1);
  const decoded: unknown = JSON.parse(literal);
  return String(decoded);
}
