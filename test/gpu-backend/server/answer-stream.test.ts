import { expect, test } from "vitest";
import { Detokenizer } from "../../../gpu-backend/engine/tokenizer/detokenizer.ts";
import { StopStrings } from "../../../gpu-backend/engine/tokenizer/stop-strings.ts";
import { TokenBytes } from "../../../gpu-backend/engine/tokenizer/token-bytes.ts";
import { Answer } from "../../../gpu-backend/server/answer.ts";
import { answerStream } from "../../../gpu-backend/server/answer-stream.ts";
import { AnswerText } from "../../../gpu-backend/server/answer-text.ts";
import { chatChunks, toUsage } from "../../../src/protocol/chat-response.ts";

const BYTES = new TokenBytes(
  new Map(Array.from({ length: 256 }, (_, byte) => [byte, Uint8Array.of(byte)])),
);

function aStream(includesUsage = false) {
  const text = new AnswerText({
    detokenizer: new Detokenizer(BYTES),
    stopStrings: new StopStrings([]),
    endTokenIds: new Set(),
  });
  const answer = new Answer(text, () => {});
  const identity = { id: "x", createdAtSeconds: 1, model: "m", systemFingerprint: "fp" };
  const stream = answerStream({
    answer,
    firstPart: undefined,
    chunks: chatChunks(identity, { includesUsage }),
    usageOf: ({ counts }) =>
      includesUsage ? toUsage({ ...counts, cacheWriteTokens: 0 }) : undefined,
    problemOf: (part) => ({ code: "upstream_error", message: part.kind }),
  });
  return { answer, stream };
}

function say(answer: Answer, text: string): void {
  for (const tokenId of Buffer.from(text)) answer.hear({ kind: "token", id: "x", tokenId });
}

function finish(answer: Answer): void {
  const counts = { promptTokens: 1, cachedTokens: 0, outputTokens: 1 };
  answer.hear({ kind: "finished", id: "x", reason: "stop", ...counts });
}

test("a reader that pauses gets one delta for all that came meanwhile", async () => {
  const { answer, stream } = aStream();
  const reader = stream.getReader();
  const first = reader.read();
  say(answer, "a");
  expect(Buffer.from((await first).value ?? []).toString()).toContain(
    '"delta":{"role":"assistant","content":"a"}',
  );
  // Nobody reads: nothing is encoded ahead, so no frames pile up.
  for (let token = 0; token < 10_000; token++) say(answer, "b");
  const { value } = await reader.read();
  const frames = Buffer.from(value ?? [])
    .toString()
    .split("\n\n");
  expect(frames).toHaveLength(2);
  expect(frames[0]).toContain(`"delta":{"content":"${"b".repeat(10_000)}"}`);
});

test("a finished stream ends with the reason, usage if asked for, and [DONE]", async () => {
  for (const includesUsage of [false, true]) {
    const { answer, stream } = aStream(includesUsage);
    say(answer, "a");
    finish(answer);
    const frames = (await new Response(stream).text()).split("\n\n");
    expect(frames.at(-1)).toBe("");
    expect(frames.at(-2)).toBe("data: [DONE]");
    expect(frames).toHaveLength(includesUsage ? 5 : 4);
    expect(frames[1]).toContain('"delta":{},"logprobs":null,"finish_reason":"stop"');
    expect(frames.slice(0, 2).every((frame) => frame.includes('"usage":null'))).toBe(includesUsage);
    expect(frames[2]?.includes('"choices":[],"usage":{')).toBe(includesUsage);
  }
});

test("a stream that fails ends with one error event and no [DONE]", async () => {
  const { answer, stream } = aStream();
  say(answer, "a");
  answer.hear({ kind: "failed", id: "x", message: "poison" });
  const text = await new Response(stream).text();
  expect(text.match(/event: error\ndata: \{"error":/g)).toHaveLength(1);
  expect(text).not.toContain("[DONE]");
  expect(text).toMatch(/"code":"upstream_error"\}\}\n\n$/);
});

test("a stream whose reader has left takes nothing more from the answer", async () => {
  const { answer, stream } = aStream();
  const reader = stream.getReader();
  const pending = reader.read();
  await reader.cancel();
  say(answer, "a");
  expect((await pending).done).toBe(true);
});
