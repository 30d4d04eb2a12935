import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { amountText, parseMicros, picosOfMicros } from "../../../src/tenants/money.ts";

describe("parseMicros()", () => {
  test.each([
    [250, 250_000_000],
    ["99.50", 99_500_000],
    [0.15, 150_000],
    [0.000001, 1],
    ["0", 0],
    [1_000_000_000, 1e15],
  ])("reads %j as %d millionths", (found, micros) => {
    expect(parseMicros(found)).toBe(micros);
  });

  test.each([
    "",
    ".5",
    "1.",
    "-1",
    -1,
    1e-7,
    0.1234567,
    "1e3",
    1e21,
    "10 EUR",
    "1,000",
    Number.NaN,
    Infinity,
    "99999999999",
    null,
    true,
  ])("finds no amount in %j", (found) => {
    expect(parseMicros(found)).toBeUndefined();
  });
});

describe("amountText()", () => {
  test.each([
    [0n, "0"],
    [1n, "0.000000000001"],
    [1_500_000_000_000n, "1.5"],
    [12_000_000_000_000n, "12"],
    [-2_500_000_000_000n, "-2.5"],
    [123_456_789_000_000_000_000_000_001n, "123456789000000.000000000001"],
  ])("writes %d as %s", (picos, text) => {
    expect(amountText(picos)).toBe(text);
  });

  test("writes what was read", () => {
    fc.assert(
      fc.property(fc.nat(1e9), (micros) => {
        expect(parseMicros(amountText(picosOfMicros(micros)))).toBe(micros);
      }),
    );
  });
});
