import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { firstTokenWithin } from "../support/pool-builders.ts";
import { refusal, streamThatGoesOn } from "./support/answers.ts";
import type { GatewayWish, TestGateway } from "./support/gateway.ts";
import {
  aGateway,
  becomesIdle,
  CHAT_PATH,
  fetchGateway,
  readEvents,
  textOf,
  WAIT,
} from "./support/gateway.ts";
import { prefillingAt } from "./support/replica.ts";
import { streamedAnswer, wholeAnswer } from "./support/upstream.ts";

const STREAM = { stream: true };
const TIMED = /^queue;dur=\d+, predicted-ttft;dur=\d+, prefill;dur=\d+, ttft;dur=\d+$/;

describe("a streamed answer", () => {
  test("reaches the client chunk by chunk and ends in [DONE]", async () => {
    const { ask, upstream } = await aGateway();
    await upstream.answerWith(streamedAnswer(["Once", " upon", " a time"]));
    const response = await ask({ body: STREAM });
    expect(response.status).toBe(200);
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache, no-transform",
      "x-accel-buffering": "no",
      "x-request-id": expect.stringMatching(/^req_[0-9a-f]{32}$/),
      "server-timing": expect.stringMatching(TIMED),
    });
    const events = await readEvents(response);
    expect(textOf(events)).toBe("Once upon a time");
    expect(events.at(-1)).toEqual({ data: "[DONE]" });
    expect(events).toHaveLength(6);
  });

  test("shows the counts only to a client who asked, though the replica always sends them", async () => {
    const { ask, upstream } = await aGateway();
    await upstream.answerWith(streamedAnswer(["Hi"]));
    const unasked = await ask({ body: STREAM });
    expect(await unasked.text()).not.toContain("usage");
    const asked = await ask({ body: { ...STREAM, stream_options: { include_usage: true } } });
    expect((await readEvents(asked)).at(-2)?.data).toMatchObject({
      choices: [],
      usage: { prompt_tokens: 12, completion_tokens: 1 },
    });
    const bodies = (await upstream.requests()).map(({ body }) => JSON.parse(body));
    expect(bodies).toMatchObject([
      { stream_options: { include_usage: true } },
      { stream_options: { include_usage: true } },
    ]);
  });

  test("tells where its time went beside the counts, to a client who asks for both", async () => {
    const { ask, upstream } = await aGateway();
    await upstream.answerWith([
      ...streamThatGoesOn(["Hi"], { kind: "pause", ms: 200 }),
      ...streamedAnswer(["there"]).slice(2),
    ]);
    const counted = { ...STREAM, stream_options: { include_usage: true } };
    const headers = { "x-include-metrics": "1" };
    const asked = await ask({ body: counted, headers });
    const metrics = Object((await readEvents(asked)).at(-2)?.data).metrics;
    const ttftMs = metrics.time_to_first_token_ms;
    expect(asked.headers.get("server-timing")).toMatch(new RegExp(`ttft;dur=${ttftMs}$`));
    expect(metrics).toEqual({
      queue_time_ms: expect.any(Number),
      prefill_time_ms: expect.any(Number),
      time_to_first_token_ms: expect.any(Number),
      predicted_ttft_ms: expect.any(Number),
      generation_time_ms: expect.any(Number),
      mean_itl_ms: null,
      tokens_per_second: null,
    });
    // The first token may have been late, but hardly by so much.
    expect(metrics.generation_time_ms).toBeGreaterThanOrEqual(150);
    for (const wish of [
      { body: counted },
      { body: STREAM, headers },
      { body: { ...counted, n: 2 }, headers },
    ]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect(await (await ask(wish)).text()).not.toContain("metrics");
    }
    const sent = (await upstream.requests()).map((request) => Object.keys(request.headers));
    expect(sent.flat()).not.toContain("x-include-metrics");
  });

  test("holds its place of the tenant's and its slot until it ends, and not longer", async () => {
    const gateway = await aGateway({ tenant: { concurrencyMax: 1 } });
    await gateway.upstream.answerWith(
      streamThatGoesOn(["a"], { kind: "gate", name: "open" }, ...streamedAnswer([]).slice(2)),
      streamedAnswer(["b"]),
    );
    const first = await gateway.ask({ body: STREAM });
    const second = await gateway.ask({ body: STREAM });
    expect(second.status).toBe(429);
    expect(await gateway.poolStatus()).toMatchObject({ leases: 1 });

    await gateway.upstream.openGate("open");
    expect((await readEvents(first)).at(-1)).toEqual({ data: "[DONE]" });
    // At once: a client that has seen its end may begin the next request.
    const third = await gateway.ask({ body: STREAM });
    expect(textOf(await readEvents(third))).toBe("b");
    await becomesIdle(gateway);
  });
});

describe("a whole answer", () => {
  test("comes as one JSON under the name the client asked for", async () => {
    const { ask, upstream } = await aGateway({ modelId: "alias/chat" });
    await upstream.answerWith(wholeAnswer("Once upon a time"));
    const response = await ask();
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("application/json");
    expect(response.headers.get("server-timing")).toMatch(/^queue;dur=\d+$/);
    expect(await response.json()).toMatchObject({
      object: "chat.completion",
      model: "alias/chat",
      choices: [{ message: { content: "Once upon a time" } }],
      usage: { prompt_tokens: 12 },
    });
  });

  test("passes with every number and field as the replica wrote it, but for its tier", async () => {
    const { ask, upstream } = await aGateway();
    const json =
      '{"created":9007199254740993,"x":1.0,"choices":[{"finish_reason":"stop"}],"model":"up"}';
    await upstream.answerWith(refusal(200, json, { "content-type": "application/json" }));
    const response = await ask();
    expect(await response.text()).toBe(
      json.replace('"up"}', '"sluice-tiny","service_tier":"default"}'),
    );
  });

  test("gives its place back before the client can see the end", async () => {
    const gateway = await aGateway({ tenant: { concurrencyMax: 1 } });
    await gateway.upstream.answerWith(wholeAnswer("a"));
    for (let count = 0; count < 5; count++) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other is the point
      expect((await gateway.ask()).status).toBe(200);
    }
    await becomesIdle(gateway);
  });

  test.each([
    ["is no JSON", "<html>"],
    ["has no choices", '{"object":"chat.completion"}'],
    ["is an error after all", '{"error":{"message":"out of blocks"}}'],
    ["was cut by the replica's failure", '{"choices":[{"finish_reason":"abort"}]}'],
  ])("that %s is an upstream error", async (_, json) => {
    const { ask, upstream } = await aGateway();
    await upstream.answerWith(refusal(200, json, { "content-type": "application/json" }));
    const response = await ask();
    expect(response.status).toBe(502);
    expect(await response.json()).toMatchObject({ error: { code: "upstream_error" } });
  });
});

describe("what a replica receives", () => {
  test("is the client's body under the replica's own name for the model", async () => {
    const { ask, upstream } = await aGateway({ modelId: "alias" });
    await upstream.answerWith(wholeAnswer("a"));
    await ask({
      body: {
        temperature: 0.5,
        x_unknown: { kept: [1, 2] },
        cache_salt: "mine",
        priority: -1000,
        stream: false,
        stream_options: null,
      },
    });
    const [received] = await upstream.requests();
    expect(JSON.parse(received?.body ?? "")).toEqual({
      model: "sluice-tiny",
      messages: [{ role: "user", content: "Tell me a story." }],
      temperature: 0.5,
      x_unknown: { kept: [1, 2] },
      stream: false,
    });
  });

  test("keeps integers that JavaScript cannot hold", async () => {
    const { key, upstream } = await aGateway();
    await upstream.answerWith(wholeAnswer("a"));
    const response = await fetchGateway(CHAT_PATH, {
      method: "POST",
      headers: { authorization: `Bearer ${key}` },
      body: '{"seed":9007199254740993,"model":"sluice-tiny","messages":[{"role":"user","content":"x"}]}',
    });
    expect(response.status).toBe(200);
    expect((await upstream.requests())[0]?.body).toContain('"seed":9007199254740993');
  });

  test("are the gateway's headers and none of the client's", async () => {
    const { ask, key, upstream } = await aGateway({
      tenant: {
        targets: {
          ttft: { percentileRatio: 0.99, limitMs: 3000 },
          tpot: { percentileRatio: 0.99, limitMs: 100 },
          tbtMaxMs: 250,
        },
      },
    });
    await upstream.answerWith(streamedAnswer(["a"]));
    const response = await ask({
      body: STREAM,
      headers: {
        cookie: "crumb=client-cookie",
        "proxy-authorization": "Basic Y2xpZW50",
        "x-api-key": "client-extra-key",
        "x-gw-cache-salt": "client-salt",
        "x-gw-tenant": "client-tenant",
        "x-gw-dispatch": "client-dispatch",
        "x-gw-deadline-ms": "999999",
        "x-request-id": "client-request",
        tracestate: "vendor=client-state",
        "user-agent": "client-agent",
      },
    });
    const [received] = await upstream.requests();
    const headers = received?.headers ?? {};
    // What the runtime itself adds: where to, how long, and that a Worker asks.
    const { host, "content-length": length, "cf-worker": worker, ...ours } = headers;
    expect([host, length, worker]).not.toContain(undefined);
    expect(ours).toEqual({
      "content-type": "application/json",
      accept: "text/event-stream",
      "accept-encoding": "identity",
      authorization: "Bearer sluice-local-replica-secret-of-the-tests",
      "x-gw-request-id": response.headers.get("x-request-id"),
      "x-gw-tenant": expect.stringMatching(/^[\w-]{22}$/),
      "x-gw-cache-salt": expect.stringMatching(/^[\w-]{43}$/),
      "x-gw-deadline-ms": expect.stringMatching(/^\d+$/),
      "x-gw-tbt-ms": "100",
      "x-gw-dispatch": expect.stringMatching(/\.1$/),
      traceparent: expect.stringMatching(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/),
    });
    expect(Number(headers["x-gw-deadline-ms"])).toBeLessThanOrEqual(3000);
    expect(JSON.stringify(received)).not.toMatch(/client-|Y2xpZW50/);
    expect(JSON.stringify(received)).not.toContain(key);
    await response.text();
  });

  test("of a whole answer is no deadline for a first token that nobody sees", async () => {
    const { ask, upstream } = await aGateway();
    await upstream.answerWith(wholeAnswer("a"));
    await ask();
    const [received] = await upstream.requests();
    expect(received?.headers).not.toHaveProperty("x-gw-deadline-ms");
  });

  test("a tenant's requests share a salt, and another salt of the client parts them", async () => {
    const { ask, upstream, otherKey } = await aGateway();
    await upstream.answerWith(wholeAnswer("a"));
    await ask();
    await ask();
    await ask({ body: { cache_salt: "narrow" } });
    await ask({ key: otherKey });
    const requests = await upstream.requests();
    const [first, second, narrowed, foreign] = requests.map(({ headers }) => headers);
    expect(second?.["x-gw-cache-salt"]).toBe(first?.["x-gw-cache-salt"]);
    expect(second?.["x-gw-tenant"]).toBe(first?.["x-gw-tenant"]);
    expect(narrowed?.["x-gw-cache-salt"]).not.toBe(first?.["x-gw-cache-salt"]);
    expect(foreign?.["x-gw-cache-salt"]).not.toBe(first?.["x-gw-cache-salt"]);
    expect(foreign?.["x-gw-tenant"]).not.toBe(first?.["x-gw-tenant"]);
  });

  test("a prompt of 400 KB arrives whole", async () => {
    const { ask, upstream } = await aGateway({
      contextTokens: 200_000,
      replica: { report: prefillingAt(0) },
    });
    await upstream.answerWith(wholeAnswer("a"));
    const content = `${"lorem ipsum ".repeat(33_000)}END-OF-PROMPT`;
    const response = await ask({ body: { messages: [{ role: "user", content }] } });
    expect(response.status).toBe(200);
    expect((await upstream.requests())[0]?.body).toContain(content);
  });
});

describe("what a client receives", () => {
  test("are no headers of the replica's", async () => {
    const { ask, upstream } = await aGateway();
    const headers = {
      "set-cookie": "a=1",
      server: "uvicorn",
      "x-powered-by": "y",
      "x-request-id": "z",
    };
    await upstream.answerWith(
      refusal(200, '{"choices":[{}]}', { ...headers, "content-type": "application/json" }),
      refusal(400, { error: { message: "no" } }, headers),
    );
    for (const response of [await ask(), await ask()]) {
      const names = [...response.headers.keys()];
      expect(names).not.toContain("set-cookie");
      expect(names).not.toContain("server");
      expect(names).not.toContain("x-powered-by");
      expect(response.headers.get("x-request-id")).toMatch(/^req_/);
    }
  });
});

function post(key: string | undefined, body: BodyInit): Promise<Response> {
  const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
  return fetchGateway(CHAT_PATH, { method: "POST", headers, body });
}

const LARGE_BODY_PARTS = 12;

/** A body of 6 MB that is made only as far as somebody reads it. */
function aLargeBody(): { body: ReadableStream<Uint8Array>; partsTaken: () => number } {
  let parts = 0;
  const pull = (controller: ReadableStreamDefaultController<Uint8Array>): void => {
    if (parts === LARGE_BODY_PARTS) {
      controller.close();
      return;
    }
    parts += 1;
    controller.enqueue(new Uint8Array(500_000).fill(0x20));
  };
  const body = new ReadableStream<Uint8Array>({ pull }, { highWaterMark: 0 });
  return { body, partsTaken: () => parts };
}

describe("a request that is wrong", () => {
  test("without a key is 401 and says how to send one", async () => {
    await aGateway();
    const response = await post(undefined, "{}");
    expect(response.status).toBe(401);
    expect(response.headers.get("www-authenticate")).toBe("Bearer");
    expect(await response.json()).toMatchObject({ error: { code: "missing_api_key" } });
  });

  test("with a wrong key is 401 and does not show the key", async () => {
    await aGateway();
    const response = await post("sk-wrong-key", "{}");
    expect(response.status).toBe(401);
    const text = await response.text();
    expect(JSON.parse(text)).toMatchObject({ error: { code: "invalid_api_key" } });
    expect(text).not.toContain("sk-wrong-key");
  });

  test.each([
    ["is no JSON", "{", "invalid_json", null],
    ["is no object", "[]", "invalid_json", null],
    ["is no UTF-8", Uint8Array.of(0x7b, 0xff, 0x7d), "invalid_json", null],
    ["has no model", '{"messages":[{"role":"user"}]}', "missing_required_parameter", "model"],
    ["has no messages", '{"model":"m"}', "missing_required_parameter", "messages"],
    ["has empty messages", '{"model":"m","messages":[]}', "empty_array", "messages"],
    [
      "has a salt that is no text",
      '{"model":"m","messages":[{"role":"user"}],"cache_salt":7}',
      "invalid_type",
      "cache_salt",
    ],
    [
      "asks for counts of no stream",
      '{"model":"m","messages":[{"role":"user"}],"stream_options":{"include_usage":true}}',
      "invalid_value",
      "stream_options",
    ],
  ])("in that its body %s is 400", async (_, body, code, param) => {
    const { key } = await aGateway();
    const response = await post(key, body);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { code, param } });
  });

  test("for a model that the tenant does not have is 404, whether it exists or not", async () => {
    const { ask, upstream } = await aGateway();
    const response = await ask({ body: { model: "gpt-4" } });
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({
      error: { code: "model_not_found", param: "model" },
    });
    expect(await upstream.requests()).toEqual([]);
  });

  test("larger than 4 MiB is 413, whether it says so or not", async () => {
    const { key } = await aGateway();
    const body = new Uint8Array(4_194_305).fill(0x20);
    const declared = await post(key, body);
    const streamed = new ReadableStream<Uint8Array>({
      start: (controller) => {
        controller.enqueue(body);
        controller.close();
      },
    });
    const undeclared = await post(key, streamed);
    for (const response of [declared, undeclared]) {
      expect(response.status).toBe(413);
      expect(await response.json()).toMatchObject({ error: { code: "request_too_large" } });
    }
  });

  test("and too large is read to its end, as proxies need it, but not for nobody's key", async () => {
    const { key } = await aGateway();
    const known = aLargeBody();
    expect((await post(key, known.body)).status).toBe(413);
    expect(known.partsTaken()).toBe(LARGE_BODY_PARTS);
    const unknown = aLargeBody();
    expect((await post("sk-nobody", unknown.body)).status).toBe(401);
    // What is under way before anybody reads.
    expect(unknown.partsTaken()).toBeLessThanOrEqual(2);
  });

  test.each(["gzip", "BR", "identity, zstd"])(
    "in that it is compressed (%s) is 415",
    async (encoding) => {
      const { ask, upstream } = await aGateway();
      const response = await ask({ headers: { "content-encoding": encoding } });
      expect(response.status).toBe(415);
      expect(await response.json()).toMatchObject({
        error: {
          code: "unsupported_content_encoding",
          message: expect.stringMatching(`expected .*'identity'.* found '${encoding}'`),
        },
      });
      expect(await upstream.requests()).toEqual([]);
    },
  );

  test("in nothing but naming its encoding 'identity' is served", async () => {
    const { ask, upstream } = await aGateway();
    await upstream.answerWith(wholeAnswer("a"));
    expect((await ask({ headers: { "content-encoding": "Identity" } })).status).toBe(200);
  });

  test("of exactly 4 MiB is read", async () => {
    const { key } = await aGateway();
    const response = await post(key, new Uint8Array(4_194_304).fill(0x20));
    expect(await response.json()).toMatchObject({ error: { code: "invalid_json" } });
  });
});

function askWithPrompt(
  { ask }: TestGateway,
  promptBytes: number,
  body: object = {},
): Promise<Response> {
  const messages = [{ role: "user", content: "a".repeat(promptBytes) }];
  return ask({ body: { ...body, messages } });
}

describe("a prompt that is too long", () => {
  test("for the model by certainty is 400 before any pool is asked", async () => {
    const gateway = await aGateway({ contextTokens: 2048 });
    const response = await askWithPrompt(gateway, 2048 * 128);
    expect(response.status).toBe(400);
    expect(await response.json()).toEqual({
      error: {
        message: "This model's maximum context length is 2048 tokens, the prompt has at least 2048",
        type: "invalid_request_error",
        param: "messages",
        code: "context_length_exceeded",
      },
    });
    expect(await gateway.poolStatus()).toMatchObject({ offered: 0 });
  });

  test("by no more than an estimate is the replica's to judge, if it can be in time", async () => {
    const gateway = await aGateway({ contextTokens: 2048 });
    await gateway.upstream.answerWith(wholeAnswer("a"));
    expect((await askWithPrompt(gateway, 2048 * 8)).status).toBe(200);
    expect(await gateway.upstream.requests()).toHaveLength(1);
  });

  test.each([
    [
      "for the target is 400 with what would be in time",
      100_000,
      "slo_unattainable",
      /^The prompt, at a guess from its length 587\d tokens, takes 58\d\d\d ms .* at most the target of 5000 ms$/,
    ],
    [
      "for the target, and by estimate for the model, is 400 in the words that clients know",
      4000,
      "context_length_exceeded",
      /^This model's maximum context length is 4000 tokens, the prompt has about 587\d$/,
    ],
  ])("%s, and no reason to try again", async (_, contextTokens, code, message) => {
    const gateway = await aGateway({
      contextTokens,
      replica: { report: prefillingAt(10) },
    });
    const response = await askWithPrompt(gateway, 20_500, STREAM);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: { code, param: "messages", message: expect.stringMatching(message) },
    });
    expect(response.headers.get("retry-after")).toBeNull();
    expect(await gateway.upstream.requests()).toEqual([]);
  });

  test.each([
    [4_000, 400, "context_length_exceeded"],
    [100_000, 503, "server_is_overloaded"],
  ])(
    "for an idle replica, in a context of %i tokens, is %i at once also where the answer comes as a whole",
    async (contextTokens, status, code) => {
      const gateway = await aGateway({ contextTokens, replica: { report: prefillingAt(10) } });
      const response = await askWithPrompt(gateway, 20_500);
      expect(response.status).toBe(status);
      expect(await response.json()).toMatchObject({ error: { code } });
      expect(await gateway.poolStatus()).toMatchObject({ offered: 1, queued: 0 });
    },
  );

  const CROWDED: GatewayWish = {
    replica: { report: { queuedUncachedTokens: 1_000_000 } },
    tenant: { targets: firstTokenWithin(300) },
  };

  test.each<[string, GatewayWish, number, RegExp]>([
    // On a busy machine its time is over before it could begin to wait.
    [
      "it has waited in vain",
      CROWDED,
      503,
      /^No replica (came free|could begin the answer) in time/,
    ],
    [
      "nobody more may wait",
      { ...CROWDED, tenant: {}, queueMax: 0 },
      503,
      /^Too many requests wait already/,
    ],
    [
      "its tenant has no share left",
      { ...CROWDED, guaranteedRatios: [0, 0.9] },
      429,
      /^The tenant has used what is guaranteed to it/,
    ],
  ])("by estimate for the model is 400 also where %s", async (_, wish, status, message) => {
    const overlong = await aGateway({ ...wish, contextTokens: 50 });
    const refused = await askWithPrompt(overlong, 600, STREAM);
    expect(refused.status).toBe(400);
    expect(refused.headers.get("retry-after")).toBeNull();
    expect(await refused.json()).toMatchObject({
      error: {
        code: "context_length_exceeded",
        message: expect.stringMatching(/context length is 50 tokens, the prompt has about 18\d$/),
      },
    });
    const shorter = await askWithPrompt(await aGateway(wish), 600, STREAM);
    expect(shorter.status).toBe(status);
    expect(await shorter.json()).toMatchObject({
      error: { message: expect.stringMatching(message) },
    });
  });

  test.each<[string, (gateway: TestGateway) => Promise<void>]>([
    [
      "no replica is there",
      async ({ replicas, poolStatus }) => {
        replicas[0]?.close();
        await vi.waitFor(async () => {
          expect((await poolStatus()).replicas).toMatchObject([{ state: "disconnected" }]);
        }, WAIT);
      },
    ],
    ["the pool is closed", ({ poolId }) => env.POOLS.getByName(poolId).close(poolId, true)],
  ])("where %s is 400 by certainty, and by estimate nobody's to judge", async (_, leave) => {
    const gateway = await aGateway({ contextTokens: 50 });
    await leave(gateway);
    const certain = await askWithPrompt(gateway, 50 * 128);
    expect(certain.status).toBe(400);
    expect(await certain.json()).toMatchObject({ error: { code: "context_length_exceeded" } });
    expect((await askWithPrompt(gateway, 600)).status).toBe(503);
  });

  test("for the time that its replica has at the moment is 503 with a retry", async () => {
    const gateway = await aGateway({
      replica: { report: { queuedUncachedTokens: 1_000_000 } },
      tenant: { targets: firstTokenWithin(1_200) },
    });
    const response = await askWithPrompt(gateway, 100, STREAM);
    expect(response.status).toBe(503);
    expect(response.headers.get("retry-after")).toMatch(/^\d+$/);
    expect(await response.json()).toMatchObject({
      error: {
        code: "server_is_overloaded",
        message: expect.stringMatching(
          /^No replica came free in time: a wait of \d+ ms is predicted$/,
        ),
      },
    });
  });
});

describe("a tenant at its limit", () => {
  test("is told when to try again, also in the words that clients read", async () => {
    const gateway = await aGateway({ tenant: { concurrencyMax: 2 } });
    await gateway.upstream.answerWith(streamThatGoesOn(["a"], { kind: "hang" }));
    const aborted = new AbortController();
    const running = await Promise.all(
      [1, 2].map(() => gateway.ask({ body: STREAM, signal: aborted.signal })),
    );
    expect(running.map(({ status }) => status)).toEqual([200, 200]);
    const response = await gateway.ask();
    expect(response.status).toBe(429);
    const seconds = response.headers.get("retry-after");
    expect(seconds).toMatch(/^\d+$/);
    expect(await response.json()).toEqual({
      error: {
        message: `The tenant's limit of 2 requests at once is reached. Please try again in ${seconds}s.`,
        type: "rate_limit_error",
        param: null,
        code: "rate_limit_exceeded",
      },
    });
    await Promise.all(running.map(async ({ body }) => body?.cancel()));
    aborted.abort();
    await becomesIdle(gateway);
  });
});

describe("the log", () => {
  test("has one line a request, without key, prompt, answer or salt", async () => {
    const lines = vi.spyOn(console, "log").mockImplementation(() => {});
    const { ask, key, upstream } = await aGateway();
    await upstream.answerWith(streamedAnswer(["Secret", " answer"]));
    const response = await ask({
      body: { ...STREAM, messages: [{ role: "user", content: "Secret prompt" }] },
      headers: { "x-request-id": "mine too" },
    });
    await response.text();
    const requestId = response.headers.get("x-request-id") ?? "none";
    // Objects of other tests may have something to say meanwhile.
    const own = () => lines.mock.calls.map(String).filter((text) => text.includes(requestId));
    await vi.waitFor(() => expect(own()).toHaveLength(1));
    const [line = ""] = own();
    lines.mockRestore();
    expect(JSON.parse(line)).toMatchObject({
      event: "request",
      requestId,
      clientRequestId: "mine?too",
      outcome: "completed",
      attempts: 1,
      promptTokens: 12,
      outputTokens: 2,
      ttftMs: expect.any(Number),
      predictedTtftMs: expect.any(Number),
      isInProfile: true,
      attainment: "good",
    });
    const [received] = await upstream.requests();
    expect(line).not.toContain("Secret");
    expect(line).not.toContain(key);
    expect(line).not.toContain(received?.headers["x-gw-cache-salt"]);
  });

  test("says of a refused request why it was refused", async () => {
    const lines = vi.spyOn(console, "log").mockImplementation(() => {});
    const { ask } = await aGateway();
    const response = await ask({ body: { model: "nobody" } });
    const requestId = response.headers.get("x-request-id") ?? "none";
    const own = lines.mock.calls.map(String).find((text) => text.includes(requestId));
    expect(JSON.parse(own ?? "{}")).toMatchObject({
      outcome: "model_not_found",
      attempts: 0,
    });
    lines.mockRestore();
  });

  test("names the rule by which a pool refused, and what an answer missed", async () => {
    const lines = vi.spyOn(console, "log").mockImplementation(() => {});
    const busy = await aGateway({
      replica: { report: { queuedUncachedTokens: 1_000_000 } },
      tenant: { targets: firstTokenWithin(1_200) },
    });
    await busy.ask({ body: STREAM });
    const broken = await aGateway();
    await broken.upstream.answerWith(refusal(502, "no"));
    await broken.ask({ body: STREAM });
    expect(lines.mock.calls.map(([line]) => JSON.parse(String(line)))).toMatchObject([
      { outcome: "server_is_overloaded", rejectedFor: "deadline-passed", attempts: 0 },
      { outcome: "upstream_error", attainment: "missed", missed: "failed", attempts: 1 },
    ]);
    lines.mockRestore();
  });
});
