import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import OpenAI, { NotFoundError } from "openai";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { runRecorded } from "../cli/support/recorded-terminal.ts";
import { parseMetrics, valueOf } from "../support/metric-lines.ts";
import { eventually } from "../support/eventually.ts";
import { RunningStack } from "./support/running-stack.ts";

const MODEL = "sluice-tiny";

const asUser = (content: string) => [{ role: "user" as const, content }];

describe("a gateway with two engines, asked by the official client", () => {
  let stack: RunningStack;
  let client: OpenAI;
  beforeAll(async () => {
    stack = await RunningStack.ready();
    client = stack.clientOf("interactive");
  });
  afterAll(async () => {
    await stack?.dispose();
  });

  /** The text of a greedy answer, streamed. */
  async function stream(content: string, outputTokens = 24): Promise<string> {
    const chunks = await client.chat.completions.create({
      model: MODEL,
      messages: asUser(content),
      temperature: 0,
      max_completion_tokens: outputTokens,
      stream: true,
    });
    let text = "";
    for await (const chunk of chunks) text += chunk.choices[0]?.delta.content ?? "";
    return text;
  }

  /** What the gateway tells of itself in numbers. */
  async function scrape() {
    const headers = { authorization: `Bearer ${stack.secrets.SLUICE_ADMIN_KEY}` };
    const lines = await (await fetch(`${stack.gatewayUrl}/metrics`, { headers })).text();
    const parsed = parseMetrics(lines);
    const value = (name: string, labels = {}) => valueOf(parsed, name, labels) ?? 0;
    return {
      parsed,
      done: value("gw_stream_end_total", { by: "done" }),
      output: value("gw_tokens_total", { type: "output" }),
      firstTokens: value("gen_ai_server_time_to_first_token_seconds_count", {
        gen_ai_operation_name: "chat",
        gen_ai_request_model: "sluice-tiny",
      }),
    };
  }

  test("an answer is text with its usage, and costs what it says", async () => {
    const answer = await client.chat.completions.create({
      model: MODEL,
      messages: asUser("Tell me a story about a fox."),
      max_completion_tokens: 24,
      temperature: 0,
    });
    expect(answer).toMatchObject({ object: "chat.completion", model: MODEL });
    const [choice] = answer.choices;
    expect(choice?.message.role).toBe("assistant");
    expect(choice?.message.content?.length).toBeGreaterThan(20);
    expect(["stop", "length"]).toContain(choice?.finish_reason);
    const { usage } = answer;
    expect(usage?.completion_tokens).toBeGreaterThan(0);
    expect(usage?.completion_tokens).toBeLessThanOrEqual(24);
    expect(usage?.total_tokens).toBe((usage?.prompt_tokens ?? 0) + (usage?.completion_tokens ?? 0));
  });

  test("a streamed answer is the same text, token by token, with usage only if asked for", async () => {
    const request = {
      model: MODEL,
      messages: asUser("Tell me a story about a lamp."),
      max_completion_tokens: 24,
      temperature: 0,
    };
    const whole = await client.chat.completions.create(request);
    const chunks = [];
    const streaming = await client.chat.completions.create({
      ...request,
      stream: true,
      stream_options: { include_usage: true },
    });
    for await (const chunk of streaming) chunks.push(chunk);

    const deltas = chunks.flatMap((chunk) => chunk.choices);
    const text = deltas.map((choice) => choice.delta.content ?? "").join("");
    expect(text).toBe(whole.choices[0]?.message.content);
    expect(deltas.length).toBeGreaterThan(10);
    expect(deltas.at(-1)?.finish_reason).toBe(whole.choices[0]?.finish_reason);
    expect(new Set(chunks.map((chunk) => chunk.id)).size).toBe(1);
    const { prompt_tokens, completion_tokens } = chunks.at(-1)?.usage ?? {};
    expect({ prompt_tokens, completion_tokens }).toEqual({
      prompt_tokens: whole.usage?.prompt_tokens,
      completion_tokens: whole.usage?.completion_tokens,
    });
    expect(chunks.filter((chunk) => chunk.usage)).toHaveLength(1);

    const without = await client.chat.completions.create({ ...request, stream: true });
    for await (const chunk of without) expect(chunk.usage ?? undefined).toBeUndefined();
  });

  test("stop strings and usage are the engine's own", async () => {
    const body = {
      model: MODEL,
      messages: asUser("Tell me a story about a dog and a boat."),
      max_completion_tokens: 60,
      temperature: 0,
      stop: ["."],
    };
    const answer = await client.chat.completions.create(body);
    const [engine] = stack.engines;
    const own = await engine?.complete(body);
    expect(own).toMatchObject({
      choices: [
        { message: { content: answer.choices[0]?.message.content }, finish_reason: "stop" },
      ],
      usage: {
        prompt_tokens: answer.usage?.prompt_tokens,
        completion_tokens: answer.usage?.completion_tokens,
      },
    });
    expect(answer.choices[0]?.message.content).not.toContain(".");
    expect(answer.choices[0]?.finish_reason).toBe("stop");
  });

  test("completions and embeddings go the same way", async () => {
    const request = { model: MODEL, prompt: "Once upon a time", max_tokens: 12, temperature: 0 };
    const whole = await client.completions.create(request);
    expect(whole).toMatchObject({ object: "text_completion", model: MODEL });
    expect(whole.usage?.completion_tokens).toBeGreaterThan(0);
    let text = "";
    for await (const chunk of await client.completions.create({ ...request, stream: true })) {
      text += chunk.choices[0]?.text ?? "";
    }
    expect(text).toBe(whole.choices[0]?.text);

    const input = ["Once upon a time", "there was a fox."];
    const vectors = await client.embeddings.create({ model: MODEL, input });
    expect(vectors.data.map(({ index }) => index)).toEqual([0, 1]);
    expect(vectors.usage.prompt_tokens).toBeGreaterThan(0);
    const lengths = vectors.data.map(({ embedding }) => Math.hypot(...embedding));
    for (const length of lengths) expect(length).toBeCloseTo(1, 4);
    await stack.whenIdle();
  });

  test("sixteen streams at once are each the text that it is alone", async () => {
    const prompts = ["fox", "lamp", "boat", "hill"].flatMap((word) =>
      ["old", "red", "sad", "big"].map((kind) => `Tell me a story about a ${kind} ${word}.`),
    );
    const together = await Promise.all(prompts.map((prompt) => stream(prompt)));
    const alone: string[] = [];
    // oxlint-disable-next-line no-await-in-loop
    for (const prompt of prompts) alone.push(await stream(prompt));
    expect(together).toEqual(alone);
    expect(new Set(alone).size).toBeGreaterThan(8);
    await stack.whenIdle();
  });

  test("a client that leaves in the middle of a stream ends its generation", async () => {
    const request = {
      model: MODEL,
      messages: asUser("Tell me a very long story."),
      temperature: 0,
      // Were it short, an engine that goes on would be done before anybody looks.
      max_completion_tokens: 1_500,
      ignore_eos: true,
    };
    const { usage } = await client.chat.completions.create(request);
    const wholeTokens = usage?.completion_tokens ?? 0;
    expect(wholeTokens).toBe(1_500);

    const before = await countGenerated();
    const abort = new AbortController();
    const chunks = await client.chat.completions.create(
      { ...request, stream: true },
      { signal: abort.signal },
    );
    for await (const _ of chunks) abort.abort();
    await stack.whenIdle();
    const generatedTokens = (await countGenerated()) - before;
    expect(generatedTokens).toBeGreaterThan(0);
    expect(generatedTokens).toBeLessThan(wholeTokens / 2);
  });

  async function countGenerated(): Promise<number> {
    const counts = await stack.metricOfEach("engine_generation_tokens_total");
    return counts.reduce((sum, count) => sum + count, 0);
  }

  test("the models are those of the tenant", async () => {
    const { data } = await client.models.list();
    expect(data.map((model) => model.id)).toEqual([MODEL]);
    expect(await client.models.retrieve(MODEL)).toMatchObject({ id: MODEL, object: "model" });
    await expect(client.models.retrieve("gpt-4")).rejects.toThrow(NotFoundError);
  });

  test("a wrong key, no key and a foreign model are refused by their names", async () => {
    const request = { model: MODEL, messages: asUser("Hi") };
    const wrong = new OpenAI({ apiKey: "sk-wrong", baseURL: `${stack.gatewayUrl}/v1` });
    await expect(wrong.chat.completions.create(request)).rejects.toMatchObject({
      status: 401,
      code: "invalid_api_key",
      requestID: expect.stringMatching(/^req_[0-9a-f]{32}$/),
    });
    const response = await fetch(`${stack.gatewayUrl}/v1/models`);
    expect(response.status).toBe(401);
    expect(await response.json()).toMatchObject({ error: { code: "missing_api_key" } });
    await expect(
      client.chat.completions.create({ ...request, model: "gpt-4" }),
    ).rejects.toMatchObject({ status: 404, code: "model_not_found" });
  });

  test("a body that is not JSON, or not a request, is refused before any engine sees it", async () => {
    const before = await stack.metricOfEach("engine_prompt_tokens_total");
    const post = (body: string) =>
      fetch(`${stack.gatewayUrl}/v1/chat/completions`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${stack.keyOf("interactive")}`,
          "content-type": "application/json",
        },
        body,
      });
    const torn = await post('{"model": "sluice-tiny", "messages": [');
    expect(torn.status).toBe(400);
    expect(await torn.json()).toMatchObject({ error: { code: "invalid_json", param: null } });
    const empty = await post(JSON.stringify({ model: MODEL, messages: [] }));
    expect(empty.status).toBe(400);
    expect(await empty.json()).toMatchObject({ error: { param: "messages" } });
    const after = await stack.metricOfEach("engine_prompt_tokens_total");
    expect(after).toEqual(before);
  });

  test.each([
    ["just too large", 4_300_000, "interactive", 413],
    ["far too large", 24_000_000, "interactive", 413],
    ["too large and nobody's", 6_000_000, "nobody", 401],
  ])("a body that is %s harms nobody's next request", async (_, bytes, tenant, status) => {
    const key = tenant === "nobody" ? "sk-nobody" : stack.keyOf(tenant);
    const url = `${stack.gatewayUrl}/v1/chat/completions`;
    for (let count = 0; count < 3; count += 1) {
      // oxlint-disable no-await-in-loop -- what comes next on a connection is the point
      const refused = await fetch(url, {
        method: "POST",
        headers: { authorization: `Bearer ${key}` },
        body: new Uint8Array(bytes).fill(0x20),
      });
      expect(refused.status).toBe(status);
      expect(await refused.json()).toMatchObject({ error: { type: "invalid_request_error" } });
      expect(await stream("Hi", 2)).not.toBe("");
      expect((await client.models.list()).data).toHaveLength(1);
      // oxlint-enable no-await-in-loop
    }
  });

  test("a prompt that no engine could answer in time is refused without a retry", async () => {
    const request = { model: MODEL, messages: asUser("the old fox and the lamp ".repeat(4000)) };
    await expect(client.chat.completions.create(request)).rejects.toMatchObject({
      status: 400,
      code: "context_length_exceeded",
      param: "messages",
    });
  });

  test("one tenant's prompts are cached for itself and for nobody else", async () => {
    const words = "the old fox went up the hill and down to the river with a lamp ".repeat(4);
    const ask = async (tenant: string) => {
      const { usage } = await stack.clientOf(tenant).chat.completions.create({
        model: MODEL,
        messages: asUser(words),
        max_completion_tokens: 2,
        temperature: 0,
      });
      return usage?.prompt_tokens_details?.cached_tokens;
    };

    // Until every engine has computed the prompt for "chat": only then is there no cold one left
    // that would hide a leak.
    const cold = await stack.metricOfEach("engine_prompt_tokens_total");
    await eventually("both engines have seen the prompt", async () => {
      await Promise.all([ask("chat"), ask("chat"), ask("chat"), ask("chat")]);
      return (await stack.metricOfEach("engine_prompt_tokens_total")).every(
        (count, index) => count > (cold[index] ?? 0),
      );
    });
    expect(await ask("chat")).toBeGreaterThan(0);
    expect(await ask("bulk")).toBe(0);
  });

  test("its metrics count what its engines generated, and say how the forecasts held", async () => {
    const before = await scrape();
    await stream("Tell me a story about a well.", 8);
    await eventually("the answer is settled", async () => (await scrape()).done > before.done);
    const after = await scrape();
    expect(after.done).toBe(before.done + 1);
    expect(after.output).toBeGreaterThan(before.output);
    expect(after.output).toBeLessThanOrEqual(before.output + 8);
    expect(after.firstTokens).toBe(before.firstTokens + 1);
    const ready = after.parsed.filter(
      ({ name, labels }) => name === "gw_replica_state" && labels["state"] === "ready",
    );
    expect(ready.map(({ value }) => value)).toEqual([1, 1]);
    expect(after.parsed.some(({ name }) => name === "gw_forecast_bounds_total")).toBe(true);
  });

  test("a configuration that is applied while it runs takes effect; a stale one does not", async () => {
    vi.stubEnv("SLUICE_ADMIN_KEY", stack.secrets.SLUICE_ADMIN_KEY);
    vi.stubEnv("SLUICE_KEY_PEPPER", stack.secrets.SLUICE_KEY_PEPPER);
    const changed = join(stack.folderPath, "changed.yaml");
    const text = readFileSync(stack.file, "utf8").replace("sk-sluice-demo-bulk", "sk-another-key");
    writeFileSync(changed, text);
    const apply = (version: number) =>
      runRecorded(
        "apply",
        changed,
        "--json",
        "--local",
        `--url=${stack.gatewayUrl}`,
        `--expected-version=${version}`,
        // The key that the file does not have any more is to go.
        "--yes",
      );
    const applied = await apply(1);
    expect(JSON.parse(applied.stdout)).toMatchObject({ version: 2 });
    const refused = await apply(1);
    expect(refused.exitCode).toBe(1);
    expect(refused.stderr).toContain("(412)");
    vi.unstubAllEnvs();

    const statusOf = async (key: string) => {
      const headers = { authorization: `Bearer ${key}` };
      return (await fetch(`${stack.gatewayUrl}/v1/models`, { headers })).status;
    };
    await eventually(
      "the new key is known",
      async () => (await statusOf("sk-another-key")) === 200,
    );
    await eventually(
      "the old key is unknown",
      async () => (await statusOf("sk-sluice-demo-bulk")) === 401,
    );
    expect(await statusOf(stack.keyOf("chat"))).toBe(200);
  });
});
