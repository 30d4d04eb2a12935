import { request } from "node:http";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { ModelList } from "../../../src/protocol/model-card.ts";
import { EngineHold } from "../../support/engine-hold.mjs";
import { eventually } from "../../support/eventually.ts";
import {
  ENGINE_START_MS_MAX,
  LONG_TASK,
  question,
  readCompletion,
  readProblem,
  startEngine,
  type TestEngine,
} from "../../support/running-engine.ts";

const SECRET = "a-secret-of-these-tests";
const SALTED = { headers: { "x-gw-cache-salt": "tenant-a" } };
const CHAT = "/v1/chat/completions";

const hold = new EngineHold();
let engine: TestEngine;
beforeAll(async () => {
  const flags = ["--require-salt", "--max-sequences", "1", "--max-queue", "1"];
  engine = await startEngine(flags, SECRET, hold);
}, ENGINE_START_MS_MAX);
afterEach(() => hold.letGo());
afterAll(() => engine.stop());

/** Posts text as it is. */
async function post(body: string) {
  return readProblem(await engine.fetch(CHAT, { method: "POST", body, ...SALTED }));
}

/** Starts a long answer that does not go on by itself; returns what ends it, when it has begun. */
async function occupy(): Promise<() => void> {
  hold.hold();
  const abort = new AbortController();
  const body = { ...LONG_TASK, stream: true };
  const response = await engine.chat(body, { ...SALTED, signal: abort.signal });
  expect(response.status).toBe(200);
  return () => {
    abort.abort();
    hold.letGo();
  };
}

describe("a request", () => {
  test.each([undefined, "", "Basic abc", "Bearer"])(
    "without the secret (%j) is 401 missing_api_key",
    async (authorization) => {
      const headers: Record<string, string> = authorization === undefined ? {} : { authorization };
      const response = await fetch(`${engine.url}/v1/models`, { headers });
      expect(response.headers.get("www-authenticate")).toBe("Bearer");
      expect(await readProblem(response)).toMatchObject({ status: 401, code: "missing_api_key" });
    },
  );

  test("with another secret is 401 invalid_api_key, on every route but /health", async () => {
    const wrong = { headers: { authorization: `Bearer ${SECRET}x` } };
    for (const path of ["/v1/models", "/metrics", "/nowhere", CHAT]) {
      const problem = await readProblem(await engine.fetch(path, wrong));
      expect(problem).toMatchObject({ status: 401, code: "invalid_api_key" });
      expect(problem.message).not.toContain(SECRET);
    }
    expect((await engine.fetch("/health", wrong)).status).toBe(200);
  });

  test("with the secret is served, however 'Bearer' is written", async () => {
    const headers = { authorization: `bEARER ${SECRET}` };
    expect((await engine.fetch("/v1/models", { headers })).status).toBe(200);
  });

  test("without a salt is 400 where salts are required", async () => {
    expect(await readProblem(await engine.chat({}))).toMatchObject({
      status: 400,
      code: "missing_cache_salt",
    });
  });

  test.each([
    ["x-gw-cache-salt", "has spaces"],
    ["x-gw-cache-salt", "s".repeat(129)],
    ["x-gw-deadline-ms", "soon"],
    ["x-gw-deadline-ms", "-1"],
    ["x-gw-tbt-ms", "0"],
    ["x-gw-dispatch", "7"],
  ])("with a senseless header %s: %s is 400 and names it", async (name, value) => {
    const headers = { "x-gw-cache-salt": "tenant-a", [name]: value };
    expect(await readProblem(await engine.chat({}, { headers }))).toMatchObject({
      status: 400,
      code: "invalid_value",
      param: name,
    });
  });

  test.each(["", "{", "[]", '"text"', "\u0000"])("whose body is %j is 400", async (body) => {
    expect(await post(body)).toMatchObject({ status: 400, code: "invalid_json" });
  });

  test.each([
    [{ messages: [] }, "empty_array", "messages"],
    [{ messages: [{ role: "user" }] }, "missing_required_parameter", "messages[0].content"],
    [{ temperature: 3 }, "decimal_above_max_value", "temperature"],
    [{ n: 17 }, "integer_above_max_value", "n"],
    [{ stream_options: {} }, "invalid_value", "stream_options"],
  ])("with %j is 400 %s", async (body, code, param) => {
    const problem = await readProblem(await engine.chat(body, SALTED));
    expect(problem).toMatchObject({ status: 400, code, param });
  });

  test("for another model is 404", async () => {
    const problem = await readProblem(await engine.chat({ model: "gpt-4" }, SALTED));
    expect(problem).toMatchObject({ status: 404, code: "model_not_found", param: "model" });
  });

  test("longer than the context is 400 with the words clients look for", async () => {
    for (const words of [2100, 200_000]) {
      const messages = [question("fox ".repeat(words))];
      const problem = await readProblem(await engine.chat({ messages }, SALTED));
      expect(problem).toMatchObject({
        status: 400,
        code: "context_length_exceeded",
        param: "messages",
        message: expect.stringContaining("maximum context length is 2048 tokens"),
      });
    }
  });

  test("of more than 8 MiB is 413, whether it says so or not", async () => {
    const chunk = Buffer.alloc(1024 * 1024, " ");
    for (const headers of [{ "content-length": String(9 * chunk.length) }, {}]) {
      const status = await new Promise((resolve, reject) => {
        const authorization = `Bearer ${SECRET}`;
        const outgoing = request(`${engine.url}${CHAT}`, {
          method: "POST",
          headers: { ...headers, authorization },
        });
        outgoing.on("response", (incoming) => {
          expect(incoming.headers.connection).toBe("close");
          incoming.resume();
          resolve(incoming.statusCode);
        });
        outgoing.on("error", reject);
        for (let sent = 0; sent < 9; sent++) outgoing.write(chunk);
        outgoing.end();
      });
      expect(status).toBe(413);
    }
  });

  test("to an unknown path is 404, with a wrong method 405 and the right ones", async () => {
    expect(await readProblem(await engine.fetch("/v1/nothing"))).toMatchObject({
      status: 404,
      code: "not_found",
    });
    const response = await engine.fetch(CHAT);
    expect(response.headers.get("allow")).toBe("POST");
    expect(await readProblem(response)).toMatchObject({ status: 405, code: "method_not_allowed" });
    const deleted = await engine.fetch("/v1/models", { method: "DELETE" });
    expect(deleted.headers.get("allow")).toBe("GET, HEAD");
  });

  test("carries an id on every answer: the gateway's if it sent one", async () => {
    for (const path of ["/v1/models", "/nowhere", "/health"]) {
      const own = await engine.fetch(path);
      expect(own.headers.get("x-request-id")).toMatch(/^req_[0-9a-f]{32}$/);
      const headers = { "x-gw-request-id": "req_from-the-gateway" };
      const adopted = await engine.fetch(path, { headers });
      expect(adopted.headers.get("x-request-id")).toBe("req_from-the-gateway");
    }
  });

  test("that finds the queue full is 503 with a time to come back, and then is served", async () => {
    const release = await occupy();
    const waiting = engine.chat({ temperature: 0 }, SALTED);
    await eventually("one request waits", async () => {
      return (await engine.metric("engine_num_requests_waiting")) === 1;
    });
    const problem = await readProblem(await engine.chat({}, SALTED));
    expect(problem).toMatchObject({ status: 503, code: "server_is_overloaded" });
    expect(Number(problem.retryAfter)).toBeGreaterThanOrEqual(1);
    release();
    expect((await readCompletion(await waiting)).choices[0]?.finish_reason).toBe("stop");
    expect((await engine.chat({ temperature: 0 }, SALTED)).status).toBe(200);
  });

  test("that cannot start before its deadline is 503, without having been computed", async () => {
    const release = await occupy();
    const computedBefore = await engine.metric("engine_prompt_tokens_total");
    const headers = { ...SALTED.headers, "x-gw-deadline-ms": "30" };
    let isAnswered = false;
    const answer = engine.chat({}, { headers }).finally(() => (isAnswered = true));
    await engine.stepUntil("it is answered", () => isAnswered);
    const problem = await readProblem(await answer);
    expect(problem).toMatchObject({ status: 503, code: "server_is_overloaded" });
    expect(await engine.metric("engine_prompt_tokens_total")).toBe(computedBefore);
    release();
    const patient = { ...SALTED.headers, "x-gw-deadline-ms": "60000", "x-gw-tbt-ms": "100" };
    expect((await engine.chat({}, { headers: patient })).status).toBe(200);
  });
});

describe("GET /v1/models", () => {
  test("lists the one model with its context length", async () => {
    const list: ModelList = JSON.parse(await (await engine.fetch("/v1/models")).text());
    expect(list).toMatchObject({
      object: "list",
      data: [{ id: "sluice-tiny", object: "model", max_model_len: 2048 }],
    });
    const one = await engine.fetch("/v1/models/sluice%2Dtiny");
    expect(await one.json()).toEqual(list.data[0]);
    expect((await engine.fetch("/v1/models", { method: "HEAD" })).status).toBe(200);
    const other = await readProblem(await engine.fetch("/v1/models/org%2Fother"));
    expect(other).toMatchObject({ status: 404, code: "model_not_found" });
  });
});

describe("a connection", () => {
  test("is kept for longer than the minute that gateways keep theirs", async () => {
    const response = await engine.fetch("/v1/models");
    const [, seconds] = /timeout=(\d+)/.exec(response.headers.get("keep-alive") ?? "") ?? [];
    expect(Number(seconds)).toBeGreaterThanOrEqual(75);
  });
});

describe("GET /metrics", () => {
  test("counts errors by code and parameters that nobody knows", async () => {
    const before = await engine.metric("engine_unknown_params_total");
    await engine.chat({ flavour: "sweet", temperature: 9 }, SALTED);
    await engine.chat({ flavour: "sweet", max_tokens: 1 }, SALTED);
    expect(await engine.metric("engine_unknown_params_total")).toBe(before + 1);
    const errors = await engine.metric('engine_request_errors_total{code="missing_cache_salt"}');
    expect(errors).toBeGreaterThan(0);
  });

  test("times requests from their arrival to their last token", async () => {
    await readCompletion(await engine.chat({ ...LONG_TASK, max_tokens: 9 }, SALTED));
    const counted = async (name: string) => engine.metric(`engine_${name}_seconds_count`);
    const requests = await counted("e2e_request_latency");
    expect(requests).toBeGreaterThan(0);
    expect(await counted("request_decode_time")).toBe(requests);
    expect(await counted("time_to_first_token")).toBe(await counted("request_prefill_time"));
    expect(await counted("inter_token_latency")).toBeGreaterThanOrEqual(8);
    const sum = async (name: string) => engine.metric(`engine_${name}_seconds_sum`);
    expect(await sum("e2e_request_latency")).toBeGreaterThan(await sum("request_decode_time"));
  });

  test("tell the operations of OpenTelemetry's conventions apart, and what went wrong", async () => {
    const count = async (name: string, operation: string, error = "") => {
      const labels = `gen_ai_operation_name="${operation}",gen_ai_provider_name="sluice",gen_ai_request_model="sluice-tiny"`;
      return engine.metric(`gen_ai_server_${name}_seconds_count{${labels}${error}}`);
    };
    const text = { prompt: "Once", max_tokens: 3, ignore_eos: true };
    await engine.post("/v1/completions", text, SALTED);
    await engine.post("/v1/embeddings", { input: "fox" }, SALTED);
    expect(await count("request_duration", "text_completion")).toBe(1);
    expect(await count("time_to_first_token", "text_completion")).toBe(1);
    expect(await count("time_per_output_token", "text_completion")).toBe(1);
    expect(await count("request_duration", "embeddings")).toBe(1);
    expect(await count("request_duration", "chat")).toBeGreaterThan(0);
    const late = { headers: { ...SALTED.headers, "x-gw-deadline-ms": "0" } };
    expect((await engine.post("/v1/completions", text, late)).status).toBe(503);
    const error = ',error_type="server_is_overloaded"';
    expect(await count("request_duration", "text_completion", error)).toBe(1);
    expect(await count("time_to_first_token", "text_completion")).toBe(1);
  });
});
