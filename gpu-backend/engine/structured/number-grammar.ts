import { anyOf } from "./grammar-writer.ts";

/** Whole numbers from `min` to `max`, both included; `undefined` is no bound. */
export interface Bounds {
  readonly min: number | undefined;
  readonly max: number | undefined;
}

/** The largest number whose digits are all nines and that a double still holds exactly. */
const WHOLE_MAX = 999_999_999_999_999;

/** Whole numbers within the bounds; `undefined` if there are none of at most 15 digits. */
export function wholeNumbers({ min = -WHOLE_MAX, max = WHOLE_MAX }: Bounds): string | undefined {
  const positive = digits(Math.max(min, 0), Math.min(max, WHOLE_MAX));
  const negative = digits(Math.max(-max, 1), Math.min(-min, WHOLE_MAX));
  const alternatives = [...positive, ...negative.map((text) => `"-" ${text}`)];
  return alternatives.length === 0 ? undefined : anyOf(alternatives);
}

/**
 * Numbers within the bounds, with a fraction only where the whole numbers on both its sides are
 * within them too: no rounding at the reader can then carry one across a bound.
 */
export function numbers({ min = -WHOLE_MAX, max = WHOLE_MAX }: Bounds): string | undefined {
  const whole = wholeNumbers({ min, max });
  if (whole === undefined) return undefined;
  const positive = digits(Math.max(min, 0), Math.min(max - 1, WHOLE_MAX));
  const negative = digits(Math.max(-max, 0), Math.min(-min - 1, WHOLE_MAX));
  const integerParts = [...positive, ...negative.map((text) => `"-" ${text}`)];
  return anyOf([whole, ...integerParts.map((text) => `${text} "." [0-9]{1,15}`)]);
}

/** Alternatives that together are the numbers from `min` to `max`, neither of them negative. */
function digits(min: number, max: number): string[] {
  const alternatives: string[] = [];
  for (let length = 1; length <= String(WHOLE_MAX).length; length += 1) {
    const low = Math.max(min, length === 1 ? 0 : 10 ** (length - 1));
    const high = Math.min(max, 10 ** length - 1);
    if (low <= high) alternatives.push(anyOf(sameLength(String(low), String(high))));
  }
  return alternatives;
}

/** Alternatives for the numbers of as many digits as both bounds have. */
function sameLength(low: string, high: string): string[] {
  const length = low.length;
  const [first, last] = [Number(low[0]), Number(high[0])];
  if (length === 1) return [digitClass(first, last)];
  if (/^0+$/.test(low) && /^9+$/.test(high)) return [`[0-9]{${length}}`];
  const [lowRest, highRest] = [low.slice(1), high.slice(1)];
  if (first === last) return [`"${first}" ${anyOf(sameLength(lowRest, highRest))}`];
  const [zeros, nines] = ["0".repeat(length - 1), "9".repeat(length - 1)];
  const between = `${digitClass(first + 1, last - 1)} [0-9]{${length - 1}}`;
  return [
    `"${first}" ${anyOf(sameLength(lowRest, nines))}`,
    ...(first + 1 < last ? [between] : []),
    `"${last}" ${anyOf(sameLength(zeros, highRest))}`,
  ];
}

function digitClass(first: number, last: number): string {
  return first === last ? `"${first}"` : `[${first}-${last}]`;
}
