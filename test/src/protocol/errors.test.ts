import { describe, expect, test } from "vitest";
import { ERRORS, retryHeaders, toErrorEnvelope } from "../../../src/protocol/errors.ts";

const statusesOf = (type: string) =>
  new Set(Object.values(ERRORS).flatMap((spec) => (spec.type === type ? [spec.status] : [])));

describe("toErrorEnvelope", () => {
  test("param and code are always present, as clients read both", () => {
    expect(toErrorEnvelope({ code: "not_found" })).toEqual({
      error: {
        message: "There is nothing here",
        type: "invalid_request_error",
        param: null,
        code: "not_found",
      },
    });
  });

  test("a problem's own message and param replace the table's", () => {
    const problem = { code: "invalid_type", message: "Expected 'n' to be 1", param: "n" } as const;
    expect(toErrorEnvelope(problem).error).toEqual({
      message: "Expected 'n' to be 1",
      type: "invalid_request_error",
      param: "n",
      code: "invalid_type",
    });
  });
});

describe("retryHeaders", () => {
  test("a problem that names no instant has no header", () => {
    expect(retryHeaders({ code: "server_is_overloaded" })).toEqual({});
  });

  test.each([
    [-5, "1", "1"],
    [0, "1", "1"],
    [1, "1", "1"],
    [1000, "1", "1000"],
    [1000.2, "2", "1001"],
    [59_001, "60", "59001"],
    [60_000, "60", "60000"],
    [3_600_000, "60", "60000"],
  ])("%d ms are %s s and %s ms, rounded up and within 1..60 s", (retryAfterMs, s, ms) => {
    expect(retryHeaders({ code: "rate_limit_exceeded", retryAfterMs })).toEqual({
      "retry-after": s,
      "retry-after-ms": ms,
    });
  });
});

describe("ERRORS", () => {
  test("429 says the tenant, 503 says us, and nobody else says either", () => {
    expect(statusesOf("rate_limit_error")).toEqual(new Set([429]));
    expect(statusesOf("service_unavailable_error")).toEqual(new Set([503]));
    expect(Math.max(...statusesOf("invalid_request_error"))).toBeLessThan(429);
  });

  test("messages are capital, without a final period, and only a used-up quota makes a client stop retrying", () => {
    const stopping: string[] = [];
    for (const [code, { message }] of Object.entries(ERRORS)) {
      expect(message).toMatch(/^[A-Z].*[^.]$/);
      if (/billing|quota|credit balance|will reset at/i.test(message)) stopping.push(code);
    }
    expect(stopping).toEqual(["insufficient_quota"]);
  });
});
