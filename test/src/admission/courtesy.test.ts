import { expect, test } from "vitest";
import { courtesyRatio } from "../../../src/admission/courtesy.ts";

test("who is not ahead leaves nothing", () => {
  expect(courtesyRatio(0, 4)).toBe(0);
});

test("who is ahead leaves more, the further it is, and a tenth at the most", () => {
  expect(courtesyRatio(600, 4)).toBeCloseTo(0.05);
  expect(courtesyRatio(1_200, 4)).toBeCloseTo(0.1);
  expect(courtesyRatio(400_000, 4)).toBeCloseTo(0.1);
});

test("the same lead is less in a larger pool", () => {
  expect(courtesyRatio(1_000, 40)).toBeLessThan(courtesyRatio(1_000, 4));
});

test("a pool that has nothing to give asks for nothing", () => {
  expect(courtesyRatio(1_000, 0)).toBe(0);
});
