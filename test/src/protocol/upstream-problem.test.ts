import { describe, expect, test } from "vitest";
import type { UpstreamRefusal } from "../../../src/protocol/upstream-problem.ts";
import {
  faultOfStatus,
  problemInAnswer,
  upstreamFailure,
} from "../../../src/protocol/upstream-problem.ts";

const faultOf = (status: number, body?: unknown, retryAfterMs?: number) =>
  faultOfStatus({ status, body, retryAfterMs, isForeign: false });

function problemOfForeign(code: unknown) {
  const error = { message: "temperature may be at most 2", param: "temperature", code };
  return faultOf(400, { error }).problem;
}

const problemInside = (code: unknown) => problemInAnswer({ error: { message: "m", code } });

const isOverload = ({ status, message }: UpstreamRefusal): boolean =>
  status === 529 || message.includes("queue is full");

describe("faultOfStatus", () => {
  test("our engine's refusal of a request keeps code, parameter and message", () => {
    const body = {
      error: {
        message: "This model's maximum context length is 2048 tokens",
        type: "invalid_request_error",
        param: "messages",
        code: "context_length_exceeded",
      },
    };
    expect(faultOf(400, body)).toEqual({
      kind: "request",
      isRetryable: false,
      problem: {
        code: "context_length_exceeded",
        message: "This model's maximum context length is 2048 tokens",
        param: "messages",
      },
    });
  });

  test("a foreign refusal keeps its message and parameter under a code of ours", () => {
    const expected = {
      code: "invalid_value",
      message: "temperature may be at most 2",
      param: "temperature",
    };
    expect(problemOfForeign(null)).toEqual(expected);
    expect(problemOfForeign(400)).toEqual(expected);
    expect(problemOfForeign("BadRequestError")).toEqual(expected);
    expect(problemOfForeign("toString")).toEqual(expected);
    expect(problemOfForeign("invalid_api_key")).toEqual(expected);
  });

  test("a refusal without a readable body still is the client's fault", () => {
    expect(faultOf(422).problem).toEqual({ code: "invalid_value" });
    expect(faultOf(413, "too long").problem).toEqual({ code: "request_too_large" });
    expect(faultOf(400, { error: "no such thing" }).problem).toEqual({
      code: "invalid_value",
      message: "no such thing",
    });
  });

  test("a very long message is cut", () => {
    const message = faultOf(400, { error: { message: "x".repeat(5000) } }).problem.message;
    expect(message).toHaveLength(1000);
  });

  test("another server's word that it has no such model sends the request elsewhere, in our words", () => {
    for (const body of [
      { error: { message: "The model `x` does not exist.", type: "NotFoundError", code: 404 } },
      { error: { message: 'model "x" not found, try pulling it first', type: "api_error" } },
      { message: "Model not found: x", type: "Not Found", code: 404 },
    ]) {
      const fault = faultOfStatus({ status: 404, body, retryAfterMs: undefined, isForeign: true });
      expect(fault).toEqual({
        kind: "model",
        isRetryable: true,
        problem: {
          code: "model_not_found",
          message: "No replica has this model at present",
          param: "model",
        },
      });
      expect(faultOf(404, body).kind).toBe("failure");
    }
    for (const body of [undefined, { detail: "Not Found" }, { error: "no route" }]) {
      const fault = faultOfStatus({ status: 404, body, retryAfterMs: undefined, isForeign: true });
      expect(fault).toEqual(upstreamFailure(false));
    }
  });

  test.each([401, 403, 404, 405, 418, 301, 204, 500])(
    "status %i is about the gateway's own request and is not retried",
    (status) => {
      const body = { error: { message: "bad key sk-secret", code: "invalid_api_key", param: "x" } };
      expect(faultOf(status, body)).toEqual({
        kind: "failure",
        isRetryable: false,
        problem: { code: "upstream_error", retryAfterMs: 1000 },
      });
    },
  );

  test("an engine that wants salted requests blames the gateway, not the client", () => {
    expect(faultOf(400, { error: { message: "", code: "missing_cache_salt" } })).toEqual(
      upstreamFailure(false),
    );
  });

  test("a replica without room is an overload that another replica may not share", () => {
    expect(faultOf(503, "loading weights", 7000)).toEqual({
      kind: "overload",
      isRetryable: true,
      problem: { code: "server_is_overloaded", retryAfterMs: 7000 },
    });
    expect(faultOf(429).problem).toEqual({ code: "server_is_overloaded", retryAfterMs: 1000 });
  });

  test("an engine that would go on otherwise is worth another try, and well", () => {
    const said = { error: { message: "no", code: "continuation_mismatch" } };
    expect(faultOf(412, said)).toEqual({ ...upstreamFailure(true), kind: "overload" });
    const foreign = { body: said, retryAfterMs: undefined, isForeign: true };
    expect(faultOfStatus({ status: 412, ...foreign })).toEqual(upstreamFailure(false));
  });

  test("of a server that is not ours 503 is a failure as well, and 500 worth another try", () => {
    const foreign = { body: "no healthy upstream", retryAfterMs: undefined, isForeign: true };
    expect(faultOfStatus({ status: 503, ...foreign })).toEqual({
      kind: "failure",
      isRetryable: true,
      problem: { code: "server_is_overloaded", retryAfterMs: 1000 },
    });
    expect(faultOfStatus({ status: 429, ...foreign }).kind).toBe("overload");
    expect(faultOfStatus({ status: 500, ...foreign })).toEqual(upstreamFailure(true));
    expect(faultOfStatus({ status: 401, ...foreign })).toEqual(upstreamFailure(false));
  });

  test("of such a server its own words for being full are heard, in whatever shape", () => {
    const foreign = { retryAfterMs: undefined, isForeign: true, isOverload };
    const flat = { object: "error", message: "The request queue is full.", code: 503 };
    for (const answer of [
      { status: 529, body: undefined },
      { status: 503, body: flat },
      { status: 503, body: { error: "Queue is full", error_type: "overloaded" } },
    ]) {
      expect(faultOfStatus({ ...answer, ...foreign }).kind).toBe("overload");
    }
    expect(faultOfStatus({ status: 503, body: {}, ...foreign }).kind).toBe("failure");
  });

  test("of such a server its own statuses for what went wrong are worth another try", () => {
    const foreign = { body: undefined, retryAfterMs: undefined, isForeign: true };
    for (const status of [424, 507, 529, 598]) {
      expect(faultOfStatus({ status, ...foreign })).toEqual(upstreamFailure(true));
    }
    expect(faultOf(424)).toEqual(upstreamFailure(false));
  });

  test("a flat error's message is told where the request is at fault", () => {
    const body = { object: "error", message: "too long", type: "BadRequestError", code: 400 };
    const fault = faultOfStatus({ status: 400, body, retryAfterMs: undefined, isForeign: true });
    expect(fault).toMatchObject({ kind: "request", problem: { message: "too long" } });
  });

  test("a gateway in between that found no replica is a failure worth another try", () => {
    expect(faultOf(502)).toEqual(upstreamFailure(true));
    expect(faultOf(504)).toMatchObject({ isRetryable: true, problem: { code: "timeout" } });
  });
});

describe("problemInAnswer", () => {
  test("a body without an error is none", () => {
    expect(problemInAnswer({ choices: [] })).toBeUndefined();
    expect(problemInAnswer({ error: null, choices: [] })).toBeUndefined();
    expect(problemInAnswer("error")).toBeUndefined();
    expect(problemInAnswer(undefined)).toBeUndefined();
  });

  test("codes of ours that blame the server are kept, all others become upstream_error", () => {
    expect(problemInside("timeout")).toEqual({ code: "timeout", message: "m" });
    expect(problemInside("engine_overloaded")).toEqual({ code: "upstream_error" });
    expect(problemInside("invalid_api_key")).toEqual({ code: "upstream_error" });
    expect(problemInAnswer({ error: "out of blocks" })).toEqual({ code: "upstream_error" });
  });
});
