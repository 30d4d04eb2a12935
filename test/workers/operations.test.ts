import { describe, expect, test, vi } from "vitest";
import { firstTokenWithin } from "../support/pool-builders.ts";
import { refusal } from "./support/answers.ts";
import type { TestGateway } from "./support/gateway.ts";
import {
  aGateway,
  becomesIdle,
  COMPLETION_PATH,
  EMBEDDINGS_PATH,
  fetchGateway,
  readEvents,
  textOf,
  WAIT,
} from "./support/gateway.ts";
import { jsonAnswer, streamedCompletion } from "./support/upstream.ts";

const COMPLETION = { path: COMPLETION_PATH, body: { prompt: "Once" } };
const STREAM = { path: COMPLETION_PATH, body: { prompt: "Once", stream: true } };
const EMBEDDINGS = { path: EMBEDDINGS_PATH, body: { input: "Once" } };
const BOTH = [
  ["a completion", COMPLETION],
  ["embeddings", EMBEDDINGS],
] as const;

const wholeCompletion = jsonAnswer({
  object: "text_completion",
  model: "up",
  choices: [{ index: 0, text: " upon a time", logprobs: null, finish_reason: "length" }],
  usage: { prompt_tokens: 5, completion_tokens: 4, total_tokens: 9 },
});
const vectors = jsonAnswer({
  object: "list",
  model: "up",
  data: [{ object: "embedding", index: 0, embedding: [0.6, 0.8] }],
  usage: { prompt_tokens: 5, total_tokens: 5 },
});

/** The bodies that replicas received. */
async function bodiesOf({ upstream }: TestGateway): Promise<unknown[]> {
  return (await upstream.requests()).map(({ body }) => JSON.parse(body));
}

/** How the first request of a pool was offered to it, and how it ended. */
async function callsOf(gateway: TestGateway) {
  await becomesIdle(gateway);
  const records = await gateway.decisions();
  const calls = records.flatMap((record) => record.calls.map(({ call }) => call));
  const offer = calls.find((call) => call.kind === "offer");
  const settle = calls.find((call) => call.kind === "settle");
  return { offer: offer?.offer, outcome: settle?.outcome };
}

describe("a streamed completion", () => {
  test("reaches the client chunk by chunk under its own name for the model, and ends in [DONE]", async () => {
    const gateway = await aGateway({ modelId: "alias" });
    await gateway.upstream.answerWith(streamedCompletion([" upon", " a", " time"]));
    const response = await gateway.ask(STREAM);
    expect(response.status).toBe(200);
    expect(response.headers.get("server-timing")).toMatch(/, ttft;dur=\d+$/);
    const events = await readEvents(response);
    expect(textOf(events)).toBe(" upon a time");
    expect(events).toHaveLength(5);
    expect(events[0]?.data).toMatchObject({ object: "text_completion", model: "alias" });
    expect(events.at(-1)).toEqual({ data: "[DONE]" });
    const [received] = await gateway.upstream.requests();
    expect(received?.path).toBe(COMPLETION_PATH);
    expect(received?.headers["accept"]).toBe("text/event-stream");
    const { outcome } = await callsOf(gateway);
    expect(outcome).toMatchObject({
      kind: "completed",
      promptTokens: 5,
      outputTokens: 3,
      attainment: { kind: "good" },
    });
  });

  test("shows the counts only to a client who asked, though the replica always sends them", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(streamedCompletion(["a"]));
    expect(await (await gateway.ask(STREAM)).text()).not.toContain("usage");
    const body = { ...STREAM.body, stream_options: { include_usage: true } };
    const events = await readEvents(await gateway.ask({ ...STREAM, body }));
    expect(events.at(-2)?.data).toMatchObject({ choices: [], usage: { prompt_tokens: 5 } });
    expect(await bodiesOf(gateway)).toMatchObject([
      { stream_options: { include_usage: true } },
      { stream_options: { include_usage: true } },
    ]);
  });

  test("is whole only when every choice of every prompt is", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(streamedCompletion(["a"]).toSpliced(-2, 1));
    const body = { ...STREAM.body, prompt: ["Once", "Twice"], n: 2 };
    const events = await readEvents(await gateway.ask({ ...STREAM, body }));
    expect(events.at(-1)).toMatchObject({ event: "error" });
  });
});

describe("an answer that comes whole", () => {
  test.each([
    ["a completion", COMPLETION, wholeCompletion, { choices: [{ text: " upon a time" }] }],
    ["embeddings", EMBEDDINGS, vectors, { data: [{ embedding: [0.6, 0.8] }] }],
  ])("passes as %s, under the name the client asked for", async (_, wish, steps, answer) => {
    const gateway = await aGateway({ modelId: "alias" });
    await gateway.upstream.answerWith(steps);
    const body = { ...wish.body, cache_salt: "mine", priority: -9, unknown: 1 };
    const response = await gateway.ask({ ...wish, body });
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ model: "alias", ...answer });
    const [received] = await gateway.upstream.requests();
    expect(received).toMatchObject({ method: "POST", path: wish.path });
    expect(received?.headers["x-gw-cache-salt"]).toMatch(/^[\w-]{43}$/);
    expect(JSON.parse(received?.body ?? "")).toEqual({
      model: "sluice-tiny",
      ...wish.body,
      unknown: 1,
    });
  });

  test.each(BOTH)("as %s that is none is an upstream error", async (_, wish) => {
    const { ask, upstream } = await aGateway();
    await upstream.answerWith(jsonAnswer({ object: "list", data: [], choices: [] }));
    const response = await ask(wish);
    expect(response.status).toBe(502);
    expect(await response.json()).toMatchObject({ error: { code: "upstream_error" } });
  });

  test("is asked of another replica when the first fails", async () => {
    const gateway = await aGateway({ replicaCount: 2 });
    await gateway.upstream.answerWith(refusal(503, "loading"), vectors);
    expect((await gateway.ask(EMBEDDINGS)).status).toBe(200);
    expect(await gateway.upstream.requests()).toHaveLength(2);
  });

  test("of vectors is offered as one token and teaches nothing of how long answers are", async () => {
    const gateway = await aGateway();
    await gateway.upstream.answerWith(vectors);
    await gateway.ask({ ...EMBEDDINGS, body: { input: ["four", "more"] } });
    const { offer, outcome } = await callsOf(gateway);
    expect(offer).toMatchObject({ promptBytes: 8, outputTokensMax: 1, isStreamed: false });
    expect(outcome).toMatchObject({
      kind: "completed",
      promptTokens: 5,
      attainment: { kind: "good" },
    });
    expect(outcome).not.toHaveProperty("outputTokens");
  });

  test("of vectors that is later than a first token may be is missed", async () => {
    const tpot = { percentileRatio: 0.99, limitMs: 100 };
    const gateway = await aGateway({ tenant: { targets: { ...firstTokenWithin(1_000), tpot } } });
    await gateway.upstream.answerWith([{ kind: "pause", ms: 1_100 }, ...vectors]);
    expect((await gateway.ask(EMBEDDINGS)).status).toBe(200);
    const { outcome } = await callsOf(gateway);
    expect(outcome).toMatchObject({ attainment: { kind: "missed", missed: ["e2e"] } });
  });
});

describe("a request for a completion or embeddings", () => {
  test.each(BOTH)("without a key is 401 (%s)", async (_, { path }) => {
    await aGateway();
    const response = await fetchGateway(path, { method: "POST", body: "{}" });
    expect(response.status).toBe(401);
  });

  test.each(BOTH)("by another method says which is right (%s)", async (_, { path }) => {
    const response = await fetchGateway(path);
    expect(response.status).toBe(405);
    expect(response.headers.get("allow")).toBe("POST, OPTIONS");
  });

  test.each([
    ["without a prompt", COMPLETION_PATH, {}, "missing_required_parameter", "prompt"],
    ["of numbers and texts", COMPLETION_PATH, { prompt: ["a", 1] }, "invalid_type", "prompt[1]"],
    ["without an input", EMBEDDINGS_PATH, {}, "missing_required_parameter", "input"],
    ["of nothing", EMBEDDINGS_PATH, { input: [] }, "empty_array", "input"],
    [
      "of more choices than a stream can tell apart",
      COMPLETION_PATH,
      { prompt: ["a", "b"], n: 65 },
      "integer_above_max_value",
      "n",
    ],
    [
      "with stream options and no stream",
      COMPLETION_PATH,
      { prompt: "a", stream_options: {} },
      "invalid_value",
      "stream_options",
    ],
  ])("%s is 400", async (_, path, body, code, param) => {
    const gateway = await aGateway();
    const response = await gateway.ask({ path, body });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { code, param } });
    expect(await gateway.poolStatus()).toMatchObject({ offered: 0 });
  });

  test.each([
    [COMPLETION_PATH, { prompt: Array.from({ length: 2048 }, () => 7) }, "prompt"],
    [EMBEDDINGS_PATH, { input: ["short", "a".repeat(2048 * 128)] }, "input"],
  ])("%s that no context fits is 400 and names its parameter", async (path, body, param) => {
    const gateway = await aGateway({ contextTokens: 2048 });
    const response = await gateway.ask({ path, body });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: { code: "context_length_exceeded", param },
    });
    expect(await gateway.poolStatus()).toMatchObject({ offered: 0 });
  });

  test("of several prompts that fit one by one is served, though together they are longer", async () => {
    const gateway = await aGateway({ contextTokens: 2048 });
    await gateway.upstream.answerWith(vectors);
    const input = [1, 2].map(() => Array.from({ length: 2000 }, () => 7));
    expect((await gateway.ask({ path: EMBEDDINGS_PATH, body: { input } })).status).toBe(200);
  });

  test.each([
    ["that came as tokens", Array.from({ length: 2047 }, () => 7)],
    ["of two texts", [1, 2].map(() => "a".repeat(4000))],
  ])("%s is not too long by an estimate of it all", async (_, prompt) => {
    const gateway = await aGateway({
      contextTokens: 2048,
      queueMax: 0,
      replica: { report: { queuedUncachedTokens: 1_000_000 } },
    });
    const response = await gateway.ask({ path: COMPLETION_PATH, body: { prompt } });
    expect(response.status).toBe(503);
  });

  test("beside a running stream counts towards the tenant's limit", async () => {
    const gateway = await aGateway({ tenant: { concurrencyMax: 1 } });
    await gateway.upstream.answerWith(
      streamedCompletion(["a"]).toSpliced(2, 0, { kind: "gate", name: "go" }),
      vectors,
    );
    const running = await gateway.ask(STREAM);
    expect((await gateway.ask(EMBEDDINGS)).status).toBe(429);
    await gateway.upstream.openGate("go");
    await running.text();
    expect((await gateway.ask(EMBEDDINGS)).status).toBe(200);
  });

  test("is told in the log by its operation, without its text", async () => {
    const lines = vi.spyOn(console, "log").mockImplementation(() => {});
    const gateway = await aGateway();
    await gateway.upstream.answerWith(vectors);
    await gateway.ask({ path: EMBEDDINGS_PATH, body: { input: "Secret text" } });
    await vi.waitFor(() => expect(lines).toHaveBeenCalledTimes(1), WAIT);
    const line = String(lines.mock.calls[0]?.[0]);
    lines.mockRestore();
    expect(JSON.parse(line)).toMatchObject({
      event: "request",
      operation: "embeddings",
      outcome: "completed",
      promptTokens: 5,
    });
    expect(line).not.toContain("Secret");
  });
});
