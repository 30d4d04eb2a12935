import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ChatCompletionChunk } from "../../../src/protocol/chat-response.ts";
import {
  ENGINE_START_MS_MAX,
  LONG_TASK,
  question,
  readChunks,
  readCompletion,
  readProblem,
  startEngine,
  type TestEngine,
} from "../../support/running-engine.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await startEngine();
}, ENGINE_START_MS_MAX);
afterAll(() => engine.stop());

const DRAWN = { ...LONG_TASK, temperature: 1.2, max_tokens: 24, min_tokens: 4 };

async function textsOf(body: object): Promise<(string | null)[]> {
  const { choices } = await readCompletion(await engine.chat(body));
  return choices.map((choice) => choice.message.content);
}

describe("n choices", () => {
  test("are each what one choice with seed + i is, and the prompt counts once", async () => {
    const together = await readCompletion(await engine.chat({ ...DRAWN, n: 3, seed: 11 }));
    const alone = await Promise.all(
      [11, 12, 13].map(async (seed) => readCompletion(await engine.chat({ ...DRAWN, seed }))),
    );
    expect(together.choices.map((choice) => choice.index)).toEqual([0, 1, 2]);
    expect(together.choices.map((choice) => choice.message.content)).toEqual(
      alone.map(({ choices }) => choices[0]?.message.content),
    );
    const outputTokens = alone.reduce((sum, { usage }) => sum + usage.completion_tokens, 0);
    expect(together.usage.completion_tokens).toBe(outputTokens);
    expect(together.usage.prompt_tokens).toBe(alone[0]?.usage.prompt_tokens);
  });

  test("differ for seeds too large to be counted up one by one", async () => {
    const texts = await textsOf({ ...DRAWN, n: 4, seed: 2 ** 60 });
    expect(new Set(texts).size).toBe(4);
  });

  test("stream side by side, each with its role, its end and nothing behind that", async () => {
    const body = { ...DRAWN, n: 4, seed: 3 };
    const streaming = { ...body, stream: true, stream_options: { include_usage: true } };
    const chunks = await readChunks<ChatCompletionChunk>(await engine.chat(streaming));
    const choices = chunks.flatMap((chunk) => chunk.choices);
    const texts = [0, 1, 2, 3].map((index) => {
      const own = choices.filter((choice) => choice.index === index);
      expect(own.filter((choice) => choice.delta.role === "assistant")).toHaveLength(1);
      expect(own.map((choice) => choice.finish_reason).slice(0, -1)).not.toContain("length");
      expect(own.at(-1)?.finish_reason).not.toBeNull();
      return own.map((choice) => choice.delta.content ?? "").join("");
    });
    expect(texts).toEqual(await textsOf(body));
    expect(chunks.filter((chunk) => chunk.usage !== null)).toEqual([chunks.at(-1)]);
  });

  test(
    "that do not all find a place are refused together, and none runs on",
    async () => {
      const small = await startEngine(["--max-sequences", "1", "--max-queue", "1"]);
      try {
        const problem = await readProblem(await small.chat({ ...DRAWN, n: 4, stream: true }));
        expect(problem).toMatchObject({ status: 503, code: "server_is_overloaded" });
        expect(await small.idleKvUsage()).toBe(0);
        expect((await small.chat({ ...DRAWN, n: 2 })).status).toBe(200);
      } finally {
        await small.stop();
      }
    },
    ENGINE_START_MS_MAX,
  );

  test("are one line in the log, without a word of what was said", async () => {
    const headers = { "x-gw-request-id": "req_three-choices" };
    await readCompletion(await engine.chat({ ...DRAWN, n: 3 }, { headers }));
    const lines = engine.log.filter((line) => line["requestId"] === "req_three-choices");
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({ event: "request-ended", choices: 3, isStream: false });
    expect(JSON.stringify(lines)).not.toContain("Lily");
  });
});

describe("log probabilities", () => {
  const task = { messages: [question("Count from 1 to 9.")], temperature: 0 };

  test("are one a token, with the alternatives asked for, the best one first", async () => {
    const body = { ...task, logprobs: true, top_logprobs: 3 };
    const { choices, usage } = await readCompletion(await engine.chat(body));
    const entries = choices[0]?.logprobs?.content ?? [];
    expect(entries).toHaveLength(usage.completion_tokens);
    const texts = entries.map((entry) => (entry.bytes === null ? "" : entry.token));
    expect(texts.join("")).toBe(choices[0]?.message.content);
    expect(entries.at(-1)).toMatchObject({ token: "<|end|>", bytes: null });
    for (const entry of entries) {
      expect(entry.top_logprobs.length).toBeGreaterThanOrEqual(3);
      expect(entry.top_logprobs[0]).toMatchObject({ token: entry.token, logprob: entry.logprob });
      const logprobs = entry.top_logprobs.map((one) => one.logprob);
      expect(logprobs).toEqual(logprobs.toSorted((a, b) => b - a));
      expect(Buffer.from(entry.bytes ?? Buffer.from(entry.token)).toString()).toBe(entry.token);
    }
  });

  test("are the same streamed, and absent where nobody asked", async () => {
    const body = { ...task, logprobs: true, top_logprobs: 1 };
    const whole = await readCompletion(await engine.chat(body));
    const chunks = await readChunks<ChatCompletionChunk>(
      await engine.chat({ ...body, stream: true }),
    );
    const streamed = chunks.flatMap((chunk) => chunk.choices[0]?.logprobs?.content ?? []);
    expect(streamed).toEqual(whole.choices[0]?.logprobs?.content);
    expect((await readCompletion(await engine.chat(task))).choices[0]?.logprobs).toBeNull();
  });

  test("of a penalised answer are those of the model, not of the rules", async () => {
    const body = { ...task, logprobs: true, max_tokens: 1 };
    const first = async (extra: object) =>
      (await readCompletion(await engine.chat({ ...body, ...extra }))).choices[0]?.logprobs;
    expect(await first({ presence_penalty: 2, temperature: 0.5, seed: 1 })).toEqual(
      await first({}),
    );
  });
});

describe("what ends an answer", () => {
  const task = { messages: [question("Count from 1 to 9.")], temperature: 0 };

  test("is put off by a minimum of tokens, and is no end token at all on request", async () => {
    const plain = await readCompletion(await engine.chat(task));
    const natural = plain.usage.completion_tokens;
    const longer = { ...task, min_tokens: natural + 8, max_tokens: natural + 40 };
    const put = await readCompletion(await engine.chat(longer));
    expect(put.usage.completion_tokens).toBeGreaterThan(natural + 8);
    const endless = { ...task, ignore_eos: true, max_tokens: natural + 20 };
    expect((await readCompletion(await engine.chat(endless))).usage.completion_tokens).toBe(
      natural + 20,
    );
  });

  test("cannot be put off beyond the context", async () => {
    const problem = await readProblem(await engine.chat({ ...task, min_tokens: 2048 }));
    expect(problem).toMatchObject({
      status: 400,
      code: "integer_above_max_value",
      param: "min_tokens",
      message: expect.stringContaining("found 2048"),
    });
  });

  test("may be a token of the client's, which is in the text only if it is to be", async () => {
    const tokenized = await engine.post("/v1/tokenize", { prompt: " 5" });
    const { tokens }: { tokens: number[] } = JSON.parse(await tokenized.text());
    const body = { ...task, stop_token_ids: tokens.slice(-1) };
    expect(await textsOf(body)).toEqual(["1, 2, 3, 4,"]);
    expect(await textsOf({ ...body, include_stop_str_in_output: true })).toEqual(["1, 2, 3, 4, 5"]);
    expect(await textsOf({ ...task, stop: "4,", include_stop_str_in_output: true })).toEqual([
      "1, 2, 3, 4,",
    ]);
  });

  test.each([
    [{ logit_bias: { 4096: 1 } }, "logit_bias.4096"],
    [{ stop_token_ids: [3, 4096] }, "stop_token_ids[1]"],
  ])("or changes it must be a token of the model: %j is refused", async (extra, param) => {
    const problem = await readProblem(await engine.chat({ ...task, ...extra }));
    expect(problem).toMatchObject({ status: 400, code: "invalid_value", param });
  });
});

describe("where the time went", () => {
  test("is told beside the usage to whoever asks, and in a header to all", async () => {
    const headers = { "x-include-metrics": "1" };
    const body = { ...LONG_TASK, max_tokens: 9, ignore_eos: true };
    const response = await engine.chat(body, { headers });
    expect(response.headers.get("server-timing")).toMatch(
      /^queue;dur=[\d.]+, prefill;dur=[\d.]+, ttft;dur=[\d.]+/,
    );
    const { metrics } = await readCompletion(response);
    expect(metrics?.time_to_first_token_ms).toBeGreaterThanOrEqual(metrics?.prefill_time_ms ?? 0);
    expect(metrics?.mean_itl_ms).toBeCloseTo((metrics?.generation_time_ms ?? 0) / 8, 0);
    expect((await readCompletion(await engine.chat(body))).metrics).toBeUndefined();
    const streaming = { ...body, stream: true, stream_options: { include_usage: true } };
    const chunks = await readChunks<ChatCompletionChunk>(await engine.chat(streaming, { headers }));
    expect(chunks.at(-1)?.metrics).toMatchObject({ tokens_per_second: expect.any(Number) });
    const pair = await readCompletion(await engine.chat({ ...body, n: 2 }, { headers }));
    expect(pair.metrics).toBeUndefined();
  });
});
