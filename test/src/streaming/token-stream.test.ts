import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { toAnswerMetrics } from "../../../src/protocol/answer-metrics.ts";
import { ModelId } from "../../../src/protocol/ids.ts";
import type { SseFrame } from "../../../src/protocol/sse.ts";
import { SseDecoder } from "../../../src/protocol/sse.ts";
import type {
  AnswerTimes,
  TokenStreamOptions,
} from "../../../src/streaming/token-stream-options.ts";
import { TokenStream } from "../../../src/streaming/token-stream.ts";

const openStream = (options: Partial<TokenStreamOptions> = {}) =>
  new TokenStream({
    modelId: ModelId.parse("alias"),
    choiceCount: 1,
    includeUsage: false,
    ...options,
  });

interface ChunkParts {
  readonly delta?: object | null;
  readonly finish?: string;
  readonly index?: number;
}

function chunk({ delta = {}, finish, index = 0 }: ChunkParts, rest: object = {}): SseFrame {
  const choice = { index, delta, logprobs: null, finish_reason: finish ?? null };
  return frame({ id: "c-1", model: "up", choices: [choice], ...rest });
}

const frame = (body: unknown): SseFrame => ({ data: JSON.stringify(body) });
const role = chunk({ delta: { role: "assistant", content: "" } });
const token = (content: string) => chunk({ delta: { content } });
const finish = chunk({ finish: "stop" });
const counts = {
  prompt_tokens: 9,
  completion_tokens: 3,
  total_tokens: 12,
  prompt_tokens_details: { cached_tokens: 4 },
};
const part = (content: string, reason: string | null = null) =>
  frame({ model: "up", choices: [{ index: 0, text: content, finish_reason: reason }] });
const usage = frame({ id: "c-1", model: "up", choices: [], usage: counts });
const done: SseFrame = { data: "[DONE]" };

function pushAll(stream: TokenStream, frames: readonly SseFrame[]): string {
  return frames.map((each, index) => stream.push(each, 1000 + index * 10)).join("");
}

/** Reads the client's text as a client does. */
function readEvents(text: string): unknown[] {
  const decoder = new TextDecoder();
  const sse = new SseDecoder({ decodeUtf8: (bytes) => decoder.decode(bytes), eventBytesMax: 1e6 });
  return sse.push(new TextEncoder().encode(text)).frames.map(({ event, data }) => {
    const body: unknown = data === "[DONE]" ? data : JSON.parse(data);
    return event === undefined ? body : { event, ...Object(body) };
  });
}

function choicesOf(event: unknown): { index: number; finish_reason: string | null }[] {
  return Object(event).choices ?? [];
}

const upstreamError = {
  event: "error",
  error: {
    message: "The model server failed before the answer was complete",
    type: "server_error",
    param: null,
    code: "upstream_error",
  },
};

describe("TokenStream", () => {
  test("a completion passes by its texts, of which an empty one is no token", () => {
    const stream = openStream();
    expect(stream.push(part(""), 5)).toBe("");
    const rest = [part("Blue"), part(" kettle"), part("", "length"), done];
    const events = readEvents(pushAll(stream, rest));
    expect(events).toMatchObject([
      { model: "alias", choices: [{ text: "" }] },
      { choices: [{ text: "Blue" }] },
      { choices: [{ text: " kettle" }] },
      { choices: [{ text: "", finish_reason: "length" }] },
      "[DONE]",
    ]);
    expect([stream.outputChunks, stream.firstTokenAtMs]).toEqual([2, 1000]);
  });

  test("a whole answer passes chunk by chunk under the alias and ends in [DONE]", () => {
    const stream = openStream();
    const text = pushAll(stream, [role, token("Blue"), token(" kettle"), finish, usage, done]);
    expect(readEvents(text)).toMatchObject([
      { model: "alias", choices: [{ delta: { role: "assistant", content: "" } }] },
      { model: "alias", choices: [{ delta: { content: "Blue" } }] },
      { model: "alias", choices: [{ delta: { content: " kettle" } }] },
      { model: "alias", choices: [{ finish_reason: "stop" }] },
      "[DONE]",
    ]);
    expect(stream.phase).toBe("ended");
  });

  test("a role alone is held back until the first token, which the clock is read at", () => {
    const stream = openStream();
    expect(stream.push(role, 100)).toBe("");
    expect(stream.phase).toBe("opened");
    expect(stream.firstTokenAtMs).toBeUndefined();
    expect(readEvents(stream.push(token("a"), 200))).toHaveLength(2);
    expect(stream.phase).toBe("streaming");
    expect(stream.firstTokenAtMs).toBe(200);
  });

  test.each([
    ["reasoning", { reasoning_content: "hm" }],
    ["a tool call", { tool_calls: [{ index: 0, id: "call_1" }] }],
    ["a refusal", { refusal: "no" }],
  ])("%s is a first token as well", (_, delta) => {
    const stream = openStream();
    stream.push(chunk({ delta: { role: "assistant", content: null, ...delta } }), 5);
    expect(stream.firstTokenAtMs).toBe(5);
  });

  test("empty deltas are not", () => {
    const stream = openStream();
    const empty = { role: "assistant", content: "", tool_calls: [], refusal: null };
    pushAll(stream, [chunk({ delta: empty }), chunk({ delta: null })]);
    expect(stream.firstTokenAtMs).toBeUndefined();
  });

  test("an answer without any token ends well and has no first token", () => {
    const stream = openStream();
    expect(readEvents(pushAll(stream, [role, finish, done]))).toMatchObject([
      { choices: [{ delta: { role: "assistant" } }] },
      { choices: [{ finish_reason: "stop" }] },
      "[DONE]",
    ]);
    expect(stream.firstTokenAtMs).toBeUndefined();
  });

  test("the gaps between tokens are measured, the largest is kept", () => {
    const stream = openStream();
    stream.push(token("a"), 100);
    stream.push(token("b"), 130);
    stream.push(token("c"), 135);
    expect(stream.tbtMaxMs).toBe(30);
  });

  test("one chunk counts as one token until the replica has counted", () => {
    const stream = openStream();
    pushAll(stream, [role, token("a"), token("b")]);
    expect(stream.outputTokens).toBe(2);
    pushAll(stream, [finish, usage]);
    expect(stream.outputTokens).toBe(3);
    expect(stream.usage).toMatchObject({ prompt_tokens: 9, completion_tokens: 3 });
  });

  test("counts that a server sends under way are not those of the answer", () => {
    const stream = openStream();
    pushAll(stream, [chunk({ delta: { content: "a" } }, { usage: { ...counts } }), token("b")]);
    expect(stream.usage).toBeUndefined();
    expect(stream.outputTokens).toBe(2);
  });

  test("counts that cannot be read do not break the answer", () => {
    const stream = openStream();
    const odd = frame({ choices: [], usage: { prompt_tokens: "9" } });
    expect(readEvents(pushAll(stream, [token("a"), finish, odd, done])).at(-1)).toBe("[DONE]");
    expect(stream.usage).toBeUndefined();
  });

  test("the chunk with the counts passes only if the client asked", () => {
    const asked = pushAll(openStream({ includeUsage: true }), [token("a"), finish, usage, done]);
    expect(readEvents(asked).at(-2)).toEqual({
      id: "c-1",
      model: "alias",
      choices: [],
      usage: counts,
    });
    const unasked = pushAll(openStream(), [token("a"), finish, usage, done]);
    expect(unasked).not.toContain("usage");
    expect(readEvents(unasked)).toHaveLength(3);
  });

  test("beside the counts of the whole answer stands where its time went, if the client asked for both", () => {
    const asked: AnswerTimes[] = [];
    const metrics = toAnswerMetrics({
      queueMs: 1,
      prefillMs: 2,
      ttftMs: 3,
      generationMs: 4,
      outputTokens: 3,
    });
    const metricsOf = (answer: AnswerTimes) => {
      asked.push(answer);
      return metrics;
    };
    const both = openStream({ includeUsage: true, metricsOf });
    const early = chunk(
      { delta: { content: "b" } },
      { usage: { ...counts, completion_tokens: 2 } },
    );
    const told = [token("a"), early, finish, usage].map((one, at) => both.push(one, 10 * at));
    expect(told.slice(0, 3).join("")).not.toContain("metrics");
    expect(readEvents(told.at(-1) ?? "")).toEqual([
      { id: "c-1", model: "alias", choices: [], usage: counts, metrics },
    ]);
    expect(asked).toEqual([{ firstTokenAtMs: 0, lastTokenAtMs: 10, outputTokens: 3 }]);
    const unasked = openStream({ metricsOf });
    expect(pushAll(unasked, [token("a"), finish, usage, done])).not.toContain("metrics");
  });

  test("counts on other chunks are taken out, unless the client asked", () => {
    const last = chunk({ finish: "stop" }, { usage: counts });
    const first = chunk({ delta: { content: "a" } }, { usage: null });
    expect(pushAll(openStream(), [first, last, done])).not.toContain("usage");
    expect(readEvents(pushAll(openStream({ includeUsage: true }), [first, last]))).toMatchObject([
      { usage: null },
      { usage: counts },
    ]);
  });

  test("fields nobody here knows and numbers above 2^53 pass as they were written", () => {
    const data =
      '{"created":9007199254740993,"model":"up","x_note":{"z":1.50},"choices":[{"index":0,"delta":{"content":"a"}}]}';
    expect(openStream().push({ data }, 0)).toBe(`data: ${data.replace('"up"', '"alias"')}\n\n`);
  });

  test("chunks of two choices keep their indexes, and both must finish", () => {
    const frames = [
      chunk({ index: 0, delta: { content: "Red" } }),
      chunk({ index: 1, delta: { content: "Grey" } }),
      chunk({ index: 0, finish: "stop" }),
    ];
    const half = openStream({ choiceCount: 2 });
    expect(readEvents(pushAll(half, frames) + half.end()).at(-1)).toEqual(upstreamError);

    const whole = openStream({ choiceCount: 2 });
    const text = pushAll(whole, [...frames, chunk({ index: 1, finish: "length" })]) + whole.end();
    expect(readEvents(text)).toMatchObject([
      { choices: [{ index: 0 }] },
      { choices: [{ index: 1 }] },
      { choices: [{ index: 0, finish_reason: "stop" }] },
      { choices: [{ index: 1, finish_reason: "length" }] },
      "[DONE]",
    ]);
  });

  test("a server that ignores n is believed when it says that it is done", () => {
    const stream = openStream({ choiceCount: 2 });
    expect(readEvents(pushAll(stream, [token("a"), finish, done])).at(-1)).toBe("[DONE]");
  });
});

describe("a TokenStream's end", () => {
  test("a finished answer without an end marker gets one", () => {
    const stream = openStream();
    const text = pushAll(stream, [token("All"), token(" good"), finish]) + stream.end();
    expect(readEvents(text).at(-1)).toBe("[DONE]");
    expect(stream.phase).toBe("ended");
  });

  test("bytes that end before the answer is finished are an error", () => {
    const stream = openStream();
    const text = pushAll(stream, [role, token("One")]) + stream.end();
    expect(readEvents(text).at(-1)).toEqual(upstreamError);
    expect(stream.phase).toBe("broken");
  });

  test("an end marker before the answer is finished is an error", () => {
    expect(readEvents(pushAll(openStream(), [token("One"), done])).at(-1)).toEqual(upstreamError);
    expect(readEvents(openStream().push(done, 0))).toEqual([upstreamError]);
  });

  test.each([
    ["an error object", frame({ error: { message: "out of blocks", code: "engine_overloaded" } })],
    ["an error of bare text", frame({ error: "out of blocks" })],
    ["an event named error", { event: "error", data: '{"choices":[]}' }],
    ["text that is no JSON", { data: "<html>" }],
    ["JSON that is no object", { data: "42" }],
    ["an object that is no chunk", frame({ hello: "world" })],
    ["a choice without an index", frame({ choices: [{ delta: {} }] })],
    ["an index out of all bounds", chunk({ index: 1_000_000, delta: { content: "a" } })],
    ["a finish_reason of error", chunk({ finish: "error" })],
    ["a finish_reason of abort", chunk({ finish: "abort" })],
  ])("%s in the stream is one error and the end of it", (_, bad) => {
    const stream = openStream();
    const text = pushAll(stream, [token("a"), bad, token("b"), finish, done]) + stream.end();
    expect(readEvents(text)).toMatchObject([
      { choices: [{ delta: { content: "a" } }] },
      upstreamError,
    ]);
    expect(stream.problem).toEqual({ code: "upstream_error" });
  });

  test("our engine's own code and message reach the client", () => {
    const text = openStream().push(frame({ error: { message: "Too slow", code: "timeout" } }), 0);
    expect(readEvents(text)).toEqual([
      {
        event: "error",
        error: { message: "Too slow", type: "server_error", param: null, code: "timeout" },
      },
    ]);
  });

  test("fail() ends a stream with the given problem, and only the first time", () => {
    const stream = openStream();
    stream.push(token("a"), 0);
    expect(readEvents(stream.fail({ code: "timeout" }))).toMatchObject([
      { error: { code: "timeout" } },
    ]);
    expect(stream.fail({ code: "upstream_error" })).toBe("");
    expect(stream.problem).toEqual({ code: "timeout" });
  });

  test("fail() after the end says nothing", () => {
    const stream = openStream();
    pushAll(stream, [token("a"), finish, done]);
    expect(stream.fail({ code: "timeout" })).toBe("");
    expect(stream.phase).toBe("ended");
  });

  test("a failure before the first token shows nothing of what was held", () => {
    const stream = openStream();
    stream.push(role, 0);
    expect(readEvents(stream.end())).toEqual([upstreamError]);
  });

  test("empty events only keep the connection alive", () => {
    const stream = openStream();
    expect(readEvents(pushAll(stream, [{ data: "" }, token("a"), finish, done]))).toHaveLength(3);
  });

  test("a server that talks without end before its first token is cut off", () => {
    const stream = openStream();
    let text = "";
    for (let count = 0; count < 5000 && !stream.isOver; count++) text += stream.push(role, count);
    expect(readEvents(text)).toEqual([upstreamError]);
  });

  test("whatever arrives in whatever order, the client sees one terminal and nothing behind it", () => {
    const anyFrame = fc.oneof(
      fc.constantFrom(role, token("a"), token("漢"), finish, usage, done, { data: "" }),
      fc.constantFrom(
        frame({ error: { message: "x" } }),
        { data: "{" },
        chunk({ finish: "error" }),
      ),
      fc.constantFrom(
        chunk({ index: 1, delta: { content: "b" } }),
        chunk({ index: 1, finish: "stop" }),
      ),
    );
    fc.assert(
      fc.property(fc.array(anyFrame, { maxLength: 12 }), fc.boolean(), (frames, includeUsage) => {
        const stream = openStream({ includeUsage });
        const events = readEvents(pushAll(stream, frames) + stream.end() + stream.end());
        const terminals = events.filter(
          (event) => event === "[DONE]" || Object.hasOwn(Object(event), "error"),
        );
        expect(terminals).toHaveLength(1);
        expect(events.at(-1)).toBe(terminals[0]);
        expect(stream.phase).toBe(terminals[0] === "[DONE]" ? "ended" : "broken");
        const choices = events.flatMap(choicesOf);
        const finished = new Set(
          choices.filter((choice) => choice.finish_reason !== null).map((choice) => choice.index),
        );
        const isWhole = finished.size > 0 && choices.every(({ index }) => finished.has(index));
        expect(isWhole || stream.phase === "broken").toBe(true);
      }),
      { numRuns: 1000 },
    );
  });
});
