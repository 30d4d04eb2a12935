import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Completion } from "../../../src/protocol/completion-response.ts";
import {
  ENGINE_START_MS_MAX,
  readChunks,
  readProblem,
  readText,
  startEngine,
  type TestEngine,
} from "../../support/running-engine.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await startEngine();
}, ENGINE_START_MS_MAX);
afterAll(() => engine.stop());

const PATH = "/v1/completions";
const TASK = { prompt: "Once upon a time, there was", temperature: 0, max_tokens: 12 };

const complete = async (body: object) => readText(await engine.post(PATH, { ...TASK, ...body }));

const refuse = async (body: object) => readProblem(await engine.post(PATH, { ...TASK, ...body }));

async function tokensOf(prompt: string): Promise<number[]> {
  const response = await engine.post("/v1/tokenize", { prompt });
  const { tokens }: { tokens: number[] } = JSON.parse(await response.text());
  return tokens;
}

describe("a completion", () => {
  test("goes on with the prompt, in 16 tokens unless it is said otherwise", async () => {
    const { object, id, choices, usage } = await complete({
      max_tokens: undefined,
      ignore_eos: true,
    });
    expect(object).toBe("text_completion");
    expect(id).toMatch(/^cmpl-/);
    expect(choices).toHaveLength(1);
    expect(choices[0]?.text).toMatch(/^ /);
    expect(usage?.completion_tokens).toBe(16);
  });

  test("of tokens is that of the text they stand for", async () => {
    const tokens = await tokensOf(TASK.prompt);
    const { choices, usage } = await complete({ prompt: tokens });
    const ofText = await complete({});
    expect(choices).toEqual(ofText.choices);
    expect(usage?.prompt_tokens).toBe(tokens.length);
    expect(ofText.usage?.prompt_tokens).toBe(tokens.length);
  });

  test("of several prompts has the choices of each, in order, and counts all of them", async () => {
    const prompts = ["One, two,", "Red, green,"];
    const alone = await Promise.all(prompts.map((prompt) => complete({ prompt, n: 2 })));
    const together = await complete({ prompt: prompts, n: 2 });
    expect(together.choices.map((choice) => choice.text)).toEqual(
      alone.flatMap(({ choices }) => choices.map((choice) => choice.text)),
    );
    expect(together.choices.map((choice) => choice.index)).toEqual([0, 1, 2, 3]);
    for (const count of ["prompt_tokens", "completion_tokens", "total_tokens"] as const) {
      const sum = alone.reduce((total, { usage }) => total + (usage?.[count] ?? 0), 0);
      expect(together.usage?.[count]).toBe(sum);
    }
    const lists = await Promise.all(prompts.map(tokensOf));
    expect((await complete({ prompt: lists, n: 2 })).choices).toEqual(together.choices);
  });

  test("streams the text that it has whole, spaces and all", async () => {
    const body = { prompt: ["Two  spaces", "Once upon"], echo: true, n: 2, seed: 4 };
    const whole = await complete({ ...body, temperature: 1 });
    const chunks = await readChunks<Completion>(
      await engine.post(PATH, {
        ...TASK,
        ...body,
        temperature: 1,
        stream: true,
        stream_options: { include_usage: true },
      }),
    );
    const choices = chunks.flatMap((chunk) => chunk.choices);
    for (const { index, text, finish_reason: reason } of whole.choices) {
      const own = choices.filter((choice) => choice.index === index);
      expect(own.map((choice) => choice.text).join("")).toBe(text);
      expect(own.at(-1)).toMatchObject({ text: "", finish_reason: reason });
      expect(own.filter((choice) => choice.finish_reason !== null)).toHaveLength(1);
    }
    const { usage } = whole;
    expect(chunks.at(-1)).toMatchObject({
      choices: [],
      usage: {
        prompt_tokens: usage?.prompt_tokens,
        completion_tokens: usage?.completion_tokens,
      },
    });
    expect(chunks.slice(0, -1).every((chunk) => chunk.usage === null)).toBe(true);
  });

  test.each([
    [{ suffix: "the end" }, "unsupported_parameter", "suffix"],
    [{ best_of: 3 }, "unsupported_parameter", "best_of"],
    [{ prompt: [4096] }, "invalid_value", "prompt"],
    [{ prompt: [[3], [4096]] }, "invalid_value", "prompt[1]"],
    [{ prompt: ["a", "b".repeat(100_000)] }, "context_length_exceeded", "prompt[1]"],
    [{ prompt: Array.from({ length: 2048 }, () => 7) }, "context_length_exceeded", "prompt"],
    [{ prompt: Array.from({ length: 9 }, () => "a"), n: 16 }, "integer_above_max_value", "n"],
  ])("with %o is refused", async (body, code, param) => {
    expect(await refuse(body)).toMatchObject({ status: 400, code, param });
  });

  test("that nobody listens to any more gives its blocks back", async () => {
    const controller = new AbortController();
    const body = { ...TASK, n: 4, max_tokens: 1000, ignore_eos: true, stream: true };
    const response = await engine.post(PATH, body, { signal: controller.signal });
    const reader = response.body?.getReader();
    await reader?.read();
    controller.abort();
    await reader?.closed.catch(() => {});
    expect(await engine.idleKvUsage()).toBe(0);
  });
});

describe("an echoed prompt", () => {
  test("stands before the text, and alone where no output is wanted", async () => {
    const { choices } = await complete({});
    const echoed = await complete({ echo: true });
    expect(echoed.choices[0]?.text).toBe(TASK.prompt + choices[0]?.text);
    const scored = await complete({ echo: true, max_tokens: 0 });
    expect(scored.choices[0]?.text).toBe(TASK.prompt);
    expect(scored.choices[0]?.finish_reason).toBe("length");
    expect(scored.usage).toMatchObject({ completion_tokens: 0 });
  });

  test("has a log probability for each token but the first, at its place in the text", async () => {
    const { choices, usage } = await complete({ echo: true, logprobs: 2, max_tokens: 3 });
    const [choice] = choices;
    const {
      tokens = [],
      token_logprobs = [],
      top_logprobs = [],
      text_offset = [],
    } = {
      ...choice?.logprobs,
    };
    expect(tokens).toHaveLength(usage?.total_tokens ?? 0);
    expect(token_logprobs[0]).toBeNull();
    expect(top_logprobs[0]).toBeNull();
    for (const [index, token] of tokens.entries()) {
      if (index === 0) continue;
      expect(token_logprobs[index]).toBeLessThanOrEqual(0);
      expect(top_logprobs[index]?.[token]).toBe(token_logprobs[index]);
      const offset = text_offset[index] ?? -1;
      expect(choice?.text.slice(offset, offset + token.length)).toBe(token);
    }
  });

  test("scores the same cold, warm and streamed", async () => {
    const body = { prompt: "The quick fox ran to the river. ".repeat(6), echo: true, logprobs: 1 };
    const first = await complete({ ...body, max_tokens: 0 });
    const again = await complete({ ...body, max_tokens: 0 });
    expect(again.choices).toEqual(first.choices);
    const streaming = { ...TASK, ...body, max_tokens: 0, stream: true };
    const chunks = await readChunks<Completion>(await engine.post(PATH, streaming));
    expect(chunks[0]?.choices[0]).toMatchObject({
      text: body.prompt,
      logprobs: first.choices[0]?.logprobs,
      finish_reason: null,
    });
    expect(chunks).toHaveLength(2);
  });
});

describe("POST /v1/tokenize", () => {
  test("counts what a completion and a chat would be billed", async () => {
    const text = { prompt: "你好 fox 🦊" };
    expect((await complete(text)).usage?.prompt_tokens).toBe((await tokensOf(text.prompt)).length);
    const messages = [{ role: "user", content: "Hello there!" }];
    const counted = await engine.post("/v1/tokenize", { messages });
    const chat = await engine.post("/v1/chat/completions", { messages, max_tokens: 1 });
    const { count, tokens }: { count: number; tokens: number[] } = JSON.parse(await counted.text());
    expect(tokens).toHaveLength(count);
    expect(JSON.parse(await chat.text())).toMatchObject({ usage: { prompt_tokens: count } });
  });
});
