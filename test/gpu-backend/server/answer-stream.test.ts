import { afterEach, expect, test, vi } from "vitest";
import type { AnswerFormat } from "../../../gpu-backend/server/answer-format.ts";
import { AnswerGroup } from "../../../gpu-backend/server/answer-group.ts";
import { answerStream } from "../../../gpu-backend/server/answer-stream.ts";
import { toUsage } from "../../../src/protocol/usage.ts";
import { aByteAnswer, finishedBy, tokensOf } from "../../support/byte-answers.ts";

/** Writes each part as it is, and nothing of what is known of the prompt. */
const PLAIN_FORMAT: AnswerFormat = {
  chunksOf: (choice, part) => (part.kind === "prompt" ? [] : [{ choice, ...part }]),
  untoldLogprobs: () => 0,
  totalsChunk: ({ usage }) => ({ total: usage.total_tokens }),
  bodyOf: (choices) => ({ choices }),
};

interface StreamOptions {
  readonly includesUsage?: boolean;
  readonly choices?: number;
  readonly format?: AnswerFormat;
}

afterEach(() => void vi.useRealTimers());

function aStream(options: StreamOptions = {}) {
  const { includesUsage = false, choices = 1, format = PLAIN_FORMAT } = options;
  const answers = new AnswerGroup(Array.from({ length: choices }, () => aByteAnswer().answer));
  const counts = { promptTokens: 1, cachedTokens: 0, cacheWriteTokens: 0, outputTokens: 2 };
  const stream = answerStream({
    answers,
    firstPart: undefined,
    format,
    totals: () => (includesUsage ? { usage: toUsage(counts) } : undefined),
    problemOf: (part) => ({ code: "upstream_error", message: part.kind }),
  });
  return { answers, stream };
}

function say(answers: AnswerGroup, text: string, choice = 0): void {
  for (const event of tokensOf(text)) answers.hear(choice, event);
}

async function framesOf(stream: ReadableStream<Uint8Array>): Promise<string[]> {
  return (await new Response(stream).text()).split("\n\n");
}

test("a reader that pauses gets one frame for all that came meanwhile", async () => {
  const { answers, stream } = aStream();
  const reader = stream.getReader();
  const first = reader.read();
  say(answers, "a");
  expect(Buffer.from((await first).value ?? []).toString()).toContain('"text":"a"');
  // Nobody reads: nothing is encoded ahead, so no frames pile up.
  for (let token = 0; token < 10_000; token++) say(answers, "b");
  const { value } = await reader.read();
  const frames = Buffer.from(value ?? [])
    .toString()
    .split("\n\n");
  expect(frames).toHaveLength(2);
  expect(frames[0]).toContain(`"text":"${"b".repeat(10_000)}"`);
});

test("a finished stream ends with the reason, totals if asked for, and [DONE]", async () => {
  for (const includesUsage of [false, true]) {
    const { answers, stream } = aStream({ includesUsage });
    say(answers, "a");
    answers.hear(0, finishedBy("stop", 1));
    const frames = await framesOf(stream);
    expect(frames.at(-1)).toBe("");
    expect(frames.at(-2)).toBe("data: [DONE]");
    expect(frames).toHaveLength(includesUsage ? 5 : 4);
    expect(frames[1]).toContain('"kind":"finished"');
    expect(frames[2]).toBe(includesUsage ? 'data: {"total":3}' : "data: [DONE]");
  }
});

test("a stream of several choices ends when the last of them has", async () => {
  const { answers, stream } = aStream({ choices: 2 });
  answers.hear(1, finishedBy("stop", 0));
  say(answers, "a");
  answers.hear(0, finishedBy("stop", 1));
  const frames = await framesOf(stream);
  expect(frames.filter((frame) => frame.includes('"kind":"finished"'))).toHaveLength(2);
  expect(frames.filter((frame) => frame.includes("[DONE]"))).toHaveLength(1);
});

test("a part without a chunk leaves no trace in a stream that goes on at once", async () => {
  const { answers, stream } = aStream();
  answers.hear(0, { kind: "prompt-logprobs", id: "a", logprobs: [undefined] });
  say(answers, "a");
  answers.hear(0, finishedBy("stop", 1));
  expect((await framesOf(stream))[0]).toContain('"text":"a"');
});

test("tokens that say nothing yet bring a comment a second, however many they are", async () => {
  vi.useFakeTimers();
  const silent: AnswerFormat = { ...PLAIN_FORMAT, chunksOf: () => [] };
  const { answers, stream } = aStream({ format: silent });
  const frames: string[] = [];
  const written = stream.pipeTo(
    new WritableStream({ write: (bytes) => void frames.push(Buffer.from(bytes).toString()) }),
  );
  for (let token = 0; token < 300; token++) {
    say(answers, "a");
    await vi.advanceTimersByTimeAsync(10);
  }
  answers.hear(0, finishedBy("stop", 300));
  await vi.advanceTimersByTimeAsync(10);
  await written;
  const keepAlive = ": keep-alive\n\n";
  expect(frames).toEqual([keepAlive, keepAlive, keepAlive, "data: [DONE]\n\n"]);
});

test("a stream that fails ends with one error event and no [DONE]", async () => {
  const { answers, stream } = aStream();
  say(answers, "a");
  answers.hear(0, { kind: "failed", id: "a", message: "poison" });
  const text = await new Response(stream).text();
  expect(text.match(/event: error\ndata: \{"error":/g)).toHaveLength(1);
  expect(text).not.toContain("[DONE]");
  expect(text).toMatch(/"code":"upstream_error"\}\}\n\n$/);
});

test("a stream whose reader has left takes nothing more from the answer", async () => {
  const { answers, stream } = aStream();
  const reader = stream.getReader();
  const pending = reader.read();
  await reader.cancel();
  say(answers, "a");
  expect((await pending).done).toBe(true);
});
