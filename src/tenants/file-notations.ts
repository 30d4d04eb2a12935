import { PATTERNS, parseDateAtMs, parseDurationMs } from "./units.ts";
import { notation, textNotation } from "./notation.ts";
import { parseMicros } from "./money.ts";

/** Completes "expected …" where `parseName` finds no name. */
export const NAME_NOTATION =
  "a name of at most 64 letters, digits, '.', '_' or '-', the first a letter or digit";

const NAME = /^[A-Za-z0-9][\w.-]{0,63}$/;
export const NAME_PATTERN = NAME.source;
const MODEL_NAME = /^[A-Za-z0-9][\w.:/-]{0,255}$/;
const AMOUNT_PATTERN = "^\\d+(\\.\\d{1,6})?$";

/** The name of a pool, a class, a tenant or a key. */
export const Name = textNotation(NAME_NOTATION, parseName, { pattern: NAME_PATTERN });

export const ModelName = textNotation(
  "a name of at most 256 letters, digits, '.', '_', '-', ':' or '/', the first a letter or digit",
  (text) => (MODEL_NAME.test(text) ? text : undefined),
  { pattern: MODEL_NAME.source },
);

export const DurationMs = textNotation(
  "a duration such as 300ms, 8s or 2m",
  (text) => {
    const durationMs = parseDurationMs(text);
    return durationMs !== undefined && durationMs > 0 ? durationMs : undefined;
  },
  { pattern: PATTERNS.duration },
);

export const DateAtMs = textNotation("a date such as 2027-06-30", parseDateAtMs, {
  pattern: PATTERNS.date,
});

/** Reads the name of a pool, a class, a tenant or a key. */
export function parseName(text: string): string | undefined {
  return NAME.test(text) ? text : undefined;
}

/** An amount of the currency that all prices of the file are in, in millionths of it. */
export function amountNotation(
  expected: string,
  { minMicros, maxMicros }: { minMicros: number; maxMicros: number },
) {
  const read = (found: unknown) => {
    const micros = parseMicros(found) ?? -1;
    return micros >= minMicros && micros <= maxMicros ? micros : undefined;
  };
  const asText = { type: "string", pattern: AMOUNT_PATTERN };
  return notation(expected, read, { anyOf: [{ type: "number", minimum: 0 }, asText] });
}

/** A duration within bounds, or one of the words that stand for what the gateway knows better. */
export function boundedDurationNotation<Word extends string = never>(
  expected: string,
  { minMs, maxMs, words = [] }: { minMs: number; maxMs: number; words?: readonly Word[] },
) {
  const read = (text: string): number | Word | undefined => {
    const word = words.find((candidate) => candidate === text);
    return word ?? parseDurationWithin(text, minMs, maxMs);
  };
  const pattern = [PATTERNS.duration, ...words.map((word) => `^${word}$`)].join("|");
  return textNotation(expected, read, { pattern });
}

function parseDurationWithin(text: string, minMs: number, maxMs: number): number | undefined {
  const durationMs = parseDurationMs(text);
  if (durationMs === undefined || durationMs < minMs || durationMs > maxMs) return undefined;
  return durationMs;
}
