import { describe, expect, test } from "vitest";
import { brokenOf, isKept } from "../../../simulator/promises/finding.ts";

describe("isKept()", () => {
  test("a bound itself keeps it, on either side", () => {
    expect(isKept({ what: "share", value: 0.01, atMost: 0.01 })).toBe(true);
    expect(isKept({ what: "share", value: 0.011, atMost: 0.01 })).toBe(false);
    expect(isKept({ what: "share", value: 0.99, atLeast: 0.99 })).toBe(true);
    expect(isKept({ what: "share", value: 0.98, atLeast: 0.99 })).toBe(false);
  });

  test("a share of nothing keeps no bound", () => {
    expect(isKept({ what: "share", value: Number.NaN, atMost: 1 })).toBe(false);
    expect(isKept({ what: "share", value: Number.NaN, atLeast: 0 })).toBe(false);
  });
});

test("brokenOf() returns what breaks its bound", () => {
  const kept = { what: "kept", value: 1, atLeast: 0 };
  const broken = { what: "broken", value: 1, atMost: 0 };
  expect(brokenOf([kept, broken])).toEqual([broken]);
});
