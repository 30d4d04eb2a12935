/** What a server said of how much more it takes, in the head of an answer. */
export interface SaidLimit {
  /** It refused for want of room, so that as many at once are too many. */
  readonly isRefused: boolean;
  /** How long it is to be left alone; 0: not at all. */
  readonly holdOffMs: number;
  /** It does not have the model that it was asked for. */
  readonly lacksModel?: true;
}

/** Nobody is left alone for longer by a header: a minute is what quotas are counted by. */
export const HOLD_OFF_MS_MAX = 60_000;
/** What is left of a quota, by what is counted, and when there will be more. */
const QUOTAS = [
  ["x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"],
  ["x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"],
  ["x-ratelimit-remaining", "x-ratelimit-reset"],
] as const;
const UNIT_MS = { h: 3_600_000, m: 60_000, s: 1_000, ms: 1 } as const;
const PARTS = /^(?:\d+(?:\.\d+)?(?:ms|h|m|s))+$/;
const PART = /(\d+(?:\.\d+)?)(ms|h|m|s)/g;
const SECONDS = /^\d+(?:\.\d+)?$/;
/** A larger number is an instant on the server's clock, which nobody here shares. */
const SECONDS_MAX = 86_400;

/** An answer's head, as far as limits are told in it. */
export interface AnswerHead {
  /** Refused for want of room. */
  readonly isRefused: boolean;
  readonly headerOf: (name: string) => string | null;
  /** How long a server of its kind is left alone that refuses and does not say for how long. */
  readonly usualHoldOffMs: number;
}

/**
 * Reads what cloud APIs tell of their limits: `retry-after-ms` and `retry-after` of a refusal, and
 * `x-ratelimit-remaining-*` with `x-ratelimit-reset-*` (OpenAI, Azure, Groq, Together), where nothing is left. Numbers are
 * seconds, others as in `1m2.5s` or `120ms`. What cannot be read is not told. `undefined`: nothing to go by.
 */
export function saidLimitOf({
  isRefused,
  headerOf,
  usualHoldOffMs,
}: AnswerHead): SaidLimit | undefined {
  const exhaustedMs = QUOTAS.map(([left, reset]) =>
    Number(headerOf(left) ?? NaN) <= 0 ? durationMsOf(headerOf(reset)) : undefined,
  );
  const askedMs = isRefused ? retryAfterMsOf(headerOf) : undefined;
  const toldMs = [askedMs, ...exhaustedMs].filter((ms) => ms !== undefined);
  if (toldMs.length === 0 && !isRefused) return undefined;
  const holdOffMs = toldMs.length > 0 ? Math.max(...toldMs) : usualHoldOffMs;
  return { isRefused, holdOffMs: Math.min(HOLD_OFF_MS_MAX, holdOffMs) };
}

function retryAfterMsOf(headerOf: AnswerHead["headerOf"]): number | undefined {
  const written = headerOf("retry-after-ms") ?? "";
  return SECONDS.test(written) ? Number(written) : durationMsOf(headerOf("retry-after"));
}

function durationMsOf(written: string | null): number | undefined {
  if (written === null || written.length > 32) return undefined;
  if (SECONDS.test(written)) {
    const seconds = Number(written);
    return seconds > SECONDS_MAX ? undefined : 1_000 * seconds;
  }
  if (!PARTS.test(written)) return undefined;
  let ms = 0;
  for (const [, value, unit] of written.matchAll(PART)) {
    if (isUnit(unit)) ms += Number(value) * UNIT_MS[unit];
  }
  return ms;
}

function isUnit(unit: string | undefined): unit is keyof typeof UNIT_MS {
  return unit !== undefined && Object.hasOwn(UNIT_MS, unit);
}
