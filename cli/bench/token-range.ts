import * as z from "zod";

/** Bounds of a uniform draw, both allowed. */
export interface TokenRange {
  readonly min: number;
  readonly max: number;
}

const RANGE = /^(\d{1,7})(?:\.\.(\d{1,7}))?$/;

/** `200` or `100..300`, as a flag or a file has it. */
export const tokenRange = z.union([z.int(), z.string()]).transform((value, context): TokenRange => {
  const [, first, last = first] = RANGE.exec(String(value)) ?? [];
  const [min, max] = [Number(first), Number(last)];
  if (min >= 1 && max >= min) return { min, max };
  const message = "Expected tokens such as 200 or 100..300";
  context.issues.push({ code: "custom", message, input: value });
  return z.NEVER;
});
