import * as z from "zod";

/** Bounds of a uniform draw, both allowed. */
export interface TokenRange {
  readonly min: number;
  readonly max: number;
}

const EXPECTED = "Expected tokens such as 200 or 100..300";
const RANGE = /^(\d{1,7})(?:\.\.(\d{1,7}))?$/;

/** A range as flags and files give it: `200` or `100..300`. */
export const TokenRange = z.union([z.int(), z.string()]).transform((value, context): TokenRange => {
  const [, from, to = from] = RANGE.exec(String(value)) ?? [];
  const [min, max] = [Number(from), Number(to)];
  if (min >= 1 && max >= min) return { min, max };
  context.issues.push({ code: "custom", message: EXPECTED, input: value });
  return z.NEVER;
});
