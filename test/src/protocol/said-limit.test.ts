import { describe, expect, test } from "vitest";
import { HOLD_OFF_MS_MAX, saidLimitOf } from "../../../src/protocol/said-limit.ts";

const saidBy = (isRefused: boolean, headers: Record<string, string>, usualHoldOffMs = 0) =>
  saidLimitOf({ isRefused, headerOf: (name) => headers[name] ?? null, usualHoldOffMs });

describe("saidLimitOf()", () => {
  test.each([
    ["seconds", { "retry-after": "2" }, 2_000],
    ["parts of seconds", { "retry-after": "0.25" }, 250],
    ["milliseconds, which are more exact", { "retry-after-ms": "120", "retry-after": "1" }, 120],
    // OpenAI.
    [
      "the quota that is used up",
      {
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "8.64s",
        "x-ratelimit-remaining-tokens": "17000",
        "x-ratelimit-reset-tokens": "6m0s",
      },
      8_640,
    ],
    // Groq.
    [
      "minutes",
      { "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "12.5ms" },
      12.5,
    ],
    [
      "the longer of two",
      { "retry-after": "1", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "3" },
      3_000,
    ],
    ["nothing longer than its bound", { "retry-after": "86400" }, HOLD_OFF_MS_MAX],
  ])("holds off for %s", (_, headers, holdOffMs) => {
    expect(saidBy(true, headers)).toEqual({ isRefused: true, holdOffMs });
  });

  test.each([
    ["a date", { "retry-after": "Wed, 21 Oct 2026 07:28:00 GMT" }],
    ["a negative number", { "retry-after": "-5" }],
    [
      "an instant in seconds since 1970",
      { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1796000000" },
    ],
    ["digits without end", { "retry-after": "9".repeat(4_000) }],
    [
      "parts without end",
      { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1s".repeat(4_000) },
    ],
    ["words", { "retry-after": "soon", "x-ratelimit-remaining-requests": "none" }],
  ])("goes by what is usual where it says %s", (_, headers) => {
    expect(saidBy(true, headers, 700)).toEqual({ isRefused: true, holdOffMs: 700 });
  });

  test("heeds a good answer only where it used up what there was", () => {
    const left = { "x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "1s" };
    expect(saidBy(false, left)).toBeUndefined();
    expect(saidBy(false, { "retry-after": "9" })).toBeUndefined();
    expect(saidBy(false, { ...left, "x-ratelimit-remaining-requests": "0" })).toEqual({
      isRefused: false,
      holdOffMs: 1_000,
    });
  });
});
