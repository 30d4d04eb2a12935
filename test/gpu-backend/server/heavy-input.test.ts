import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  ENGINE_START_MS_MAX,
  LONG_TASK,
  startEngine,
  type TestEngine,
} from "../../support/running-engine.ts";

let engine: TestEngine;
beforeAll(async () => {
  engine = await startEngine(["--max-batch-tokens", "64"]);
}, ENGINE_START_MS_MAX);
afterAll(() => engine.stop());

const MEBIBYTE = 1024 * 1024;

function deep(levels: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level += 1) value = [value];
  return value;
}

/** What is large, strange or both, and which answers to it are right. */
const HEAVY: readonly (readonly [name: string, path: string, body: object, statuses: number[]])[] =
  [
    ["1 MiB of one letter", "/v1/completions", { prompt: "a".repeat(MEBIBYTE) }, [400]],
    ["1 MiB of words", "/v1/completions", { prompt: "fox ran ".repeat(MEBIBYTE / 8) }, [400]],
    ["a letter that just fits", "/v1/completions", { prompt: "a".repeat(2000) }, [200]],
    ["a context of spaces", "/v1/completions", { prompt: " ".repeat(30_000) }, [200, 400]],
    ["joined emoji", "/v1/completions", { prompt: "👩\u200d🚀".repeat(3000) }, [400]],
    ["marks upon marks", "/v1/completions", { prompt: `e${"\u0301".repeat(30_000)}` }, [400]],
    ["half characters", "/v1/completions", { prompt: "\ud83d".repeat(2000) }, [200, 400]],
    ["a nearly full context", "/v1/completions", { prompt: tokens(2040) }, [200]],
    ["100,000 token ids", "/v1/completions", { prompt: tokens(100_000) }, [400]],
    ["a million token ids", "/v1/completions", { prompt: tokens(1_000_000) }, [400]],
    ["10,000 stop strings", "/v1/completions", { prompt: "a", stop: strings(10_000) }, [400]],
    ["4 long stop strings", "/v1/completions", { prompt: "a", stop: stops(1024) }, [200]],
    ["100,000 biases", "/v1/completions", { prompt: "a", logit_bias: biases(100_000) }, [400]],
    ["4,000 biases", "/v1/completions", { prompt: "a", logit_bias: biases(4000) }, [200]],
    ["JSON 1,000 deep", "/v1/completions", { prompt: "a", user: deep(1000) }, [400]],
    ["1 MiB of private use", "/v1/tokenize", { prompt: "\ue000".repeat(MEBIBYTE / 4) }, [400]],
    ["4096 messages", "/v1/chat/completions", { messages: messages(4096) }, [400]],
    ["64 texts", "/v1/embeddings", { input: strings(64) }, [200]],
  ];

function tokens(count: number): number[] {
  return Array.from({ length: count }, (_, index) => 300 + (index % 3000));
}

function strings(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `text ${index}`);
}

function stops(length: number): string[] {
  return ["a", "b", "ab", "ba"].map((unit) => unit.repeat(length).slice(0, length));
}

function biases(count: number): Record<string, number> {
  return Object.fromEntries(Array.from({ length: count }, (_, id) => [id, 0.5]));
}

function messages(count: number): object[] {
  return Array.from({ length: count }, (_, index) => ({ role: "user", content: `${index}?` }));
}

/** Streams, one behind the other for as long as anybody reads, counted event by event. */
async function endlessStream() {
  const controller = new AbortController();
  const { signal } = controller;
  const body = { ...LONG_TASK, stream: true, ignore_eos: true, max_tokens: 1900 };
  let response = await engine.chat(body, { signal });
  let events = 0;
  const reading = (async () => {
    for (;;) {
      const chunks: Uint8Array[] = [];
      for await (const chunk of response.body ?? []) {
        chunks.push(chunk);
        events += 1;
      }
      if (!Buffer.concat(chunks).toString().endsWith("data: [DONE]\n\n")) return "cut off";
      response = await engine.chat(body, { signal });
    }
  })().catch((error: unknown) => (signal.aborted ? "left" : error));
  return {
    events: () => events,
    /** Leaves, and returns how reading came to an end. */
    stop: () => {
      controller.abort();
      return reading;
    },
  };
}

describe("while a client sends", () => {
  test.each(HEAVY)("%s, a stream and /health go on", async (_, path, body, statuses) => {
    const stream = await endlessStream();
    const before = stream.events();
    const progress = { isAnswered: false };
    const answer = engine
      .post(path, { max_tokens: 1, ...body })
      .finally(() => (progress.isAnswered = true));
    let healthy = 0;
    while (!progress.isAnswered) healthy += (await engine.fetch("/health")).status === 200 ? 1 : 0;
    const response = await answer;
    expect(statuses).toContain(response.status);
    await response.text();
    // Not stopped by it: there is more to come, in the time that it takes to ask again.
    const { events } = stream;
    const after = events();
    while (events() === after) await engine.fetch("/health");
    expect(events()).toBeGreaterThan(before);
    expect(healthy).toBeGreaterThan(0);
    expect(await stream.stop()).toBe("left");
  });
});
