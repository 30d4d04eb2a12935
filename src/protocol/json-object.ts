import { describe, type Validated } from "./validation.ts";

/** Real requests nest below 20. Far deeper values make `JSON.stringify` overflow the stack. */
export const JSON_DEPTH_MAX = 128;

/**
 * Parses the text of a request body. What is no JSON object, or nests deeper than
 * `JSON_DEPTH_MAX`, is `invalid_json`.
 */
export function parseJsonObject(text: string): Validated<Readonly<Record<string, unknown>>> {
  // Before parsing: a million brackets cost `JSON.parse` a second.
  if (nestsDeeperThan(text, JSON_DEPTH_MAX)) {
    const message = `Expected the request body to nest at most ${JSON_DEPTH_MAX} levels deep`;
    return { kind: "invalid", problem: { code: "invalid_json", message } };
  }
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return { kind: "invalid", problem: { code: "invalid_json" } };
  }
  if (!isRecord(body)) {
    const message = `Expected the request body to be a JSON object, found ${describe(body)}`;
    return { kind: "invalid", problem: { code: "invalid_json", message } };
  }
  return { kind: "valid", value: body };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const QUOTE = 34;
const BACKSLASH = 92;
const OPENING_BRACKET = 91;
const CLOSING_BRACKET = 93;
const OPENING_BRACE = 123;
const CLOSING_BRACE = 125;

/** Counts brackets outside strings. Of text that is no JSON it may say either. */
function nestsDeeperThan(json: string, depthMax: number): boolean {
  let depth = 0;
  for (let index = 0; index < json.length; index += 1) {
    const character = json.charCodeAt(index);
    if (character === QUOTE) {
      index = closingQuote(json, index);
    } else if (character === OPENING_BRACKET || character === OPENING_BRACE) {
      depth += 1;
      if (depth > depthMax) return true;
    } else if (character === CLOSING_BRACKET || character === CLOSING_BRACE) {
      depth -= 1;
    }
  }
  return false;
}

/**
 * The end of a string, or of the text if it has none. Most of a body is inside strings, and
 * `indexOf` goes through them many characters at a time.
 */
function closingQuote(json: string, openingQuote: number): number {
  let quote = json.indexOf('"', openingQuote + 1);
  while (isEscaped(json, quote)) quote = json.indexOf('"', quote + 1);
  return quote === -1 ? json.length : quote;
}

function isEscaped(json: string, quote: number): boolean {
  let backslashes = 0;
  while (json.charCodeAt(quote - 1 - backslashes) === BACKSLASH) backslashes += 1;
  return backslashes % 2 === 1;
}
