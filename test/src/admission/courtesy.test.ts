import { expect, test } from "vitest";
import { courtesyRatio } from "../../../src/admission/courtesy.ts";

test("who is not ahead leaves nothing", () => {
  expect(courtesyRatio(0, 4, false)).toBe(0);
});

test("who is ahead leaves more, the further it is, and a tenth at the most", () => {
  expect(courtesyRatio(600, 4, false)).toBeCloseTo(0.05);
  expect(courtesyRatio(1_200, 4, false)).toBeCloseTo(0.1);
  expect(courtesyRatio(400_000, 4, false)).toBeCloseTo(0.1);
});

test("the same lead is less in a larger pool", () => {
  expect(courtesyRatio(1_000, 40, false)).toBeLessThan(courtesyRatio(1_000, 4, false));
});

test("a pool that has nothing to give asks for nothing", () => {
  expect(courtesyRatio(1_000, 0, false)).toBe(0);
});

test("whose requests cost more than is foreseen leaves a fifth more, ahead or not", () => {
  expect(courtesyRatio(0, 4, true)).toBeCloseTo(0.2);
  expect(courtesyRatio(600, 4, true)).toBeCloseTo(0.25);
});
