import { expect, test, vi } from "vitest";
import { problemOf } from "../../workers/error-response.ts";
import { GatewayError } from "../../workers/gateway-error.ts";

const marked = (mark: object) => Object.assign(new Error("secret"), mark);

test.each([
  ["restarts, and did so twice", { durableObjectReset: true }],
  ["cannot be reached", { retryable: true }],
  ["has no room", { overloaded: true }],
])("an object that %s is a 503 with a time to come back", (_, mark) => {
  const logged = vi.spyOn(console, "error").mockImplementation(() => {});
  expect(problemOf(marked(mark), "req_1")).toEqual({
    code: "server_is_overloaded",
    retryAfterMs: 1_000,
  });
  expect(logged).toHaveBeenCalledExactlyOnceWith(expect.stringContaining("req_1"));
  logged.mockRestore();
});

test("what nobody foresaw says nothing of itself", () => {
  const logged = vi.spyOn(console, "error").mockImplementation(() => {});
  for (const error of [marked({}), marked({ retryable: false }), "secret"]) {
    expect(problemOf(error, "req_1")).toEqual({ code: "internal_error" });
  }
  logged.mockRestore();
});

test("what the gateway says it means", () => {
  const problem = { code: "invalid_api_key" } as const;
  expect(problemOf(new GatewayError(problem), "req_1")).toEqual(problem);
});
