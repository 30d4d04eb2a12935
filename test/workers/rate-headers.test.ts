import { describe, expect, test } from "vitest";
import { rateHeaders } from "../../workers/rate-headers.ts";

describe("rateHeaders()", () => {
  test.each([
    [0, "0s"],
    [20, "20ms"],
    [1000, "1s"],
    [59_500, "59.5s"],
    [60_000, "1m0s"],
    [60_400, "1m0.4s"],
  ])("writes %i ms as Go does: %s", (resetMs, text) => {
    const headers = rateHeaders({ tokens: { limit: 10, remaining: 1, nextMs: 0, resetMs } });
    expect(headers["x-ratelimit-reset-tokens"]).toBe(text);
  });

  test("tells requests also as the draft does: when more of them are back, in whole seconds", () => {
    const requests = { limit: 600, remaining: 599, nextMs: 11_001, resetMs: 60_000 };
    expect(rateHeaders({ requests })).toMatchObject({
      "ratelimit-policy": '"requests";q=600;w=60',
      ratelimit: '"requests";r=599;t=12',
    });
  });

  test("says nothing of what is not limited", () => {
    expect(rateHeaders({})).toEqual({});
  });
});
