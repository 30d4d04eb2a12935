import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  ENGINE_START_MS_MAX,
  LONG_TASK,
  question,
  readCompletion,
  readStream,
  startEngine,
  type TestEngine,
} from "../../support/running-engine.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await startEngine();
}, ENGINE_START_MS_MAX);
afterAll(() => engine.stop());

const COUNT_TASK = { messages: [question("Count from 1 to 12.")], temperature: 0 };

/** Asks the same once whole and once streamed. */
async function askBothWays(body: object) {
  const whole = await readCompletion(await engine.chat(body));
  const streaming = { ...body, stream: true, stream_options: { include_usage: true } };
  const streamed = await readStream(await engine.chat(streaming));
  return { whole, streamed };
}

async function drawText(seed: number | undefined) {
  const body = { ...LONG_TASK, temperature: 1.2, seed, max_tokens: 30 };
  return (await readCompletion(await engine.chat(body))).choices[0]?.message.content;
}

describe("an answer", () => {
  test("to a golden prompt is the golden text", async () => {
    const url = new URL("../../../gpu-backend/models/golden.json", import.meta.url);
    const golden = JSON.parse(await readFile(url, "utf8"));
    const { messages, text, prompt_ids: promptIds } = golden.models["sluice-tiny"].prompts[0];
    const answer = await readCompletion(await engine.chat({ messages, temperature: 0 }));
    expect(answer.choices[0]?.message.content).toBe(text);
    expect(answer.usage.prompt_tokens).toBe(promptIds.length);
  });

  test.each([
    ["greedy", COUNT_TASK],
    ["drawn with a seed", { ...LONG_TASK, max_tokens: 40 }],
    ["in Chinese", { messages: [question("写一个关于兔子的小故事。")], temperature: 0 }],
    ["cut off by its limit", { ...COUNT_TASK, max_completion_tokens: 5 }],
    ["ended by a stop string", { ...COUNT_TASK, stop: ["7,"] }],
  ])("that is %s has one text and one usage, streamed or whole", async (_, body) => {
    const { whole, streamed } = await askBothWays(body);
    const [choice] = whole.choices;
    expect(streamed.text).toBe(choice?.message.content);
    expect(streamed.text.length).toBeGreaterThan(4);
    expect(streamed.finishReasons).toEqual([choice?.finish_reason]);
    expect(streamed.usage?.prompt_tokens).toBe(whole.usage.prompt_tokens);
    expect(streamed.usage?.completion_tokens).toBe(whole.usage.completion_tokens);
    expect(streamed.lastData).toBe("[DONE]");
  });

  test("ends before its stop string, and counts the token that completed it", async () => {
    const full = await readCompletion(await engine.chat(COUNT_TASK));
    const stopped = await readCompletion(await engine.chat({ ...COUNT_TASK, stop: ["9", "7,"] }));
    const text = full.choices[0]?.message.content ?? "";
    expect(stopped.choices[0]?.message.content).toBe(text.slice(0, text.indexOf("7,")));
    expect(stopped.choices[0]?.finish_reason).toBe("stop");
    // As many tokens as an answer needs that may go just far enough.
    const enough = stopped.usage.completion_tokens;
    const cut = { ...COUNT_TASK, max_tokens: enough };
    expect((await readCompletion(await engine.chat(cut))).choices[0]?.message.content).toMatch(
      /7,$/,
    );
    const tooFew = { ...COUNT_TASK, max_tokens: enough - 1 };
    const shorter = (await readCompletion(await engine.chat(tooFew))).choices[0]?.message.content;
    expect(shorter).not.toContain("7,");
  });

  test("that reaches max_tokens has exactly so many and says 'length'", async () => {
    const answer = await readCompletion(await engine.chat({ ...LONG_TASK, max_tokens: 17 }));
    expect(answer.usage.completion_tokens).toBe(17);
    expect(answer.choices[0]?.finish_reason).toBe("length");
  });

  test("repeats with its seed, and another seed gives another one", async () => {
    expect(await drawText(7)).toBe(await drawText(7));
    expect(await drawText(7)).not.toBe(await drawText(8));
    expect(await drawText(undefined)).not.toBe(await drawText(undefined));
  });

  test("is the same alone and among fifteen others", async () => {
    const body = { ...LONG_TASK, temperature: 1, seed: 3, max_tokens: 30 };
    const alone = await readCompletion(await engine.chat(body));
    const together = await Promise.all(
      Array.from({ length: 16 }, async (_, index) => {
        const response = await engine.chat({ ...body, seed: index });
        return (await readCompletion(response)).choices[0]?.message.content;
      }),
    );
    expect(together[3]).toBe(alone.choices[0]?.message.content);
    expect(new Set(together).size).toBeGreaterThan(8);
  });

  test("finds its prompt cached under its own salt and under no other", async () => {
    const messages = [question(`Repeat the text:\n${"The old fox sat by the river. ".repeat(8)}`)];
    const ask = async (salt?: string) => {
      const headers: Record<string, string> = salt === undefined ? {} : { "x-gw-cache-salt": salt };
      const body = { messages, temperature: 0, max_tokens: 4 };
      return (await readCompletion(await engine.chat(body, { headers }))).usage;
    };
    const first = await ask("tenant-a");
    expect(first.prompt_tokens_details.cached_tokens).toBe(0);
    const again = await ask("tenant-a");
    const cachedTokens = again.prompt_tokens_details.cached_tokens;
    expect(cachedTokens).toBe(16 * Math.floor((again.prompt_tokens - 1) / 16));
    expect(first.prompt_tokens_details.cache_write_tokens).toBeGreaterThanOrEqual(cachedTokens);
    expect((await ask("tenant-b")).prompt_tokens_details.cached_tokens).toBe(0);
    expect((await ask()).prompt_tokens_details.cached_tokens).toBe(0);
  });
});

describe("a stream", () => {
  test("begins with the role on its first token and says usage only if asked", async () => {
    const response = await engine.chat({ ...COUNT_TASK, stream: true });
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache, no-transform",
      "x-accel-buffering": "no",
    });
    const { chunks } = await readStream(response);
    expect(chunks[0]?.choices[0]?.delta).toMatchObject({ role: "assistant" });
    expect(chunks[0]?.choices[0]?.delta.content).not.toBe("");
    expect(chunks.filter((chunk) => chunk.choices[0]?.delta.role !== undefined)).toHaveLength(1);
    expect(chunks.every((chunk) => !("usage" in chunk) && chunk.choices.length === 1)).toBe(true);
    expect(new Set(chunks.map((chunk) => chunk.id)).size).toBe(1);
  });

  test("has usage in a last chunk without choices when it is asked for", async () => {
    const body = { ...COUNT_TASK, stream: true, stream_options: { include_usage: true } };
    const { chunks } = await readStream(await engine.chat(body));
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: 11 } });
    expect(chunks.slice(0, -1).every((chunk) => chunk.usage === null)).toBe(true);
    expect(chunks.at(-2)?.choices[0]).toMatchObject({ delta: {}, finish_reason: "stop" });
  });

  test("of an answer without any text has a role and an end", async () => {
    const { streamed } = await askBothWays({ ...COUNT_TASK, stop: ["1"] });
    expect(streamed.text).toBe("");
    expect(streamed.chunks[0]?.choices[0]?.delta).toEqual({ role: "assistant", content: "" });
    expect(streamed.finishReasons).toEqual(["stop"]);
    expect(streamed.usage?.completion_tokens).toBe(1);
  });
});
