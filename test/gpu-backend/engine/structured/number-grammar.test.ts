import * as fc from "fast-check";
import { expect, test } from "vitest";
import { numbers, wholeNumbers } from "../../../../gpu-backend/engine/structured/number-grammar.ts";

/** The expression as one of JavaScript: its words are the same but for literals and blanks. */
function toRegExp(expression: string): RegExp {
  const source = expression
    .replaceAll(/"([^"]*)"/g, (_, literal: string) => literal.replaceAll(".", "\\."))
    .replaceAll(" ", "");
  return new RegExp(`^(?:${source})$`);
}

const bound = fc.oneof(
  fc.integer({ min: -1200, max: 1200 }),
  fc.integer({ min: -1e12, max: 1e12 }),
);
const bounds = fc
  .tuple(bound, bound)
  .map(([a, b]) => ({ min: Math.min(a, b), max: Math.max(a, b) }));

test("exactly the whole numbers within the bounds are written", () => {
  fc.assert(
    fc.property(bounds, fc.integer({ min: -2000, max: 2000 }), ({ min, max }, offset) => {
      const regExp = toRegExp(wholeNumbers({ min, max }) ?? "");
      for (const value of [min - 1, min, max, max + 1, min + offset, max + offset, offset]) {
        expect([value, regExp.test(String(value))]).toEqual([value, min <= value && value <= max]);
      }
    }),
    { numRuns: 500 },
  );
});

test("one bound alone leaves the other side open, to 15 digits", () => {
  const from = toRegExp(wholeNumbers({ min: 37, max: undefined }) ?? "");
  expect(["36", "37", "100", "999999999999999"].map((text) => from.test(text))).toEqual([
    false,
    true,
    true,
    true,
  ]);
  const to = toRegExp(wholeNumbers({ min: undefined, max: -37 }) ?? "");
  expect(["-36", "-37", "0", "-999999999999999"].map((text) => to.test(text))).toEqual([
    false,
    true,
    false,
    true,
  ]);
  expect(wholeNumbers({ min: 1e15, max: undefined })).toBeUndefined();
});

test("a fraction is written only where no rounding can carry it across a bound", () => {
  fc.assert(
    fc.property(
      bounds,
      fc.integer({ min: -1500, max: 1500 }),
      fc.nat(999_999_999_999_999),
      (limits, whole, digits) => {
        const regExp = toRegExp(numbers(limits) ?? "");
        const text = `${whole}.${digits}`;
        const value = Number(text);
        const isInside = limits.min <= value && value <= limits.max;
        expect(regExp.test(text) && !isInside).toBe(false);
        // Of what is written: 436.999999999999972 is the number 437 and still not of those between 437 and 438.
        const below = whole < 0 && digits > 0 ? whole - 1 : whole;
        const isBetweenWholes = below >= limits.min && below + 1 <= limits.max;
        expect(regExp.test(text) || !isBetweenWholes).toBe(true);
      },
    ),
    { numRuns: 500, examples: [[{ min: 437, max: 438 }, 436, 999_999_999_999_972]] },
  );
});

test("a range without a whole number has no grammar", () => {
  expect(wholeNumbers({ min: 2, max: 1 })).toBeUndefined();
  expect(numbers({ min: 1, max: 0 })).toBeUndefined();
});
