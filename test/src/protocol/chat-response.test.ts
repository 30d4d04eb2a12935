import type OpenAI from "openai";
import { describe, expect, test } from "vitest";
import {
  chatChunks,
  chatCompletion,
  type FinishedChoice,
} from "../../../src/protocol/chat-response.ts";
import { completion } from "../../../src/protocol/completion-response.ts";
import { type ModelCard, modelCard } from "../../../src/protocol/model-card.ts";
import { toUsage } from "../../../src/protocol/usage.ts";

type Mutable<Value> = Value extends object
  ? { -readonly [Key in keyof Value]: Mutable<Value[Key]> }
  : Value;

/** Sends a value over the wire, as a client's mutable types take it. */
function received<Value>(value: Value): Mutable<Value> {
  return JSON.parse(JSON.stringify(value));
}

const IDENTITY = {
  id: "chatcmpl-1",
  createdAtSeconds: 1_780_000_000,
  model: "sluice-tiny",
  systemFingerprint: "fp_1",
};
const USAGE = toUsage({ promptTokens: 40, cachedTokens: 32, cacheWriteTokens: 8, outputTokens: 7 });

describe("toUsage", () => {
  test("counts add up and every detail is present", () => {
    expect(USAGE).toEqual({
      prompt_tokens: 40,
      completion_tokens: 7,
      total_tokens: 47,
      prompt_tokens_details: { cached_tokens: 32, cache_write_tokens: 8, audio_tokens: 0 },
      completion_tokens_details: {
        reasoning_tokens: 0,
        audio_tokens: 0,
        accepted_prediction_tokens: 0,
        rejected_prediction_tokens: 0,
      },
    });
  });
});

const METRICS = {
  queue_time_ms: 1,
  prefill_time_ms: 2,
  time_to_first_token_ms: 3,
  generation_time_ms: 4,
  mean_itl_ms: 2,
  tokens_per_second: 500,
};
const LOGPROB = {
  token: "Hi",
  logprob: -0.5,
  bytes: [72, 105],
  top_logprobs: [{ token: "Hi", logprob: -0.5, bytes: [72, 105] }],
};
const CALL = { id: "call_1", type: "function", function: { name: "f", arguments: "{}" } } as const;

describe("chatCompletion", () => {
  const choice: FinishedChoice = {
    content: "Hi!",
    toolCalls: [],
    logprobs: null,
    finishReason: "length",
  };

  test("is what OpenAI's client reads, with each required key", () => {
    const built = chatCompletion(IDENTITY, [choice], { usage: USAGE });
    const read: OpenAI.ChatCompletion = received(built);
    expect(read).toEqual({
      id: "chatcmpl-1",
      object: "chat.completion",
      created: 1_780_000_000,
      model: "sluice-tiny",
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: "Hi!", refusal: null },
          logprobs: null,
          finish_reason: "length",
        },
      ],
      usage: USAGE,
      service_tier: "default",
      system_fingerprint: "fp_1",
    });
  });

  test("has its choices in order, with calls and log probabilities where there are any", () => {
    const calling = {
      ...choice,
      content: null,
      toolCalls: [CALL],
      finishReason: "tool_calls" as const,
    };
    const choices = [{ ...choice, logprobs: [LOGPROB] }, calling];
    const totals = { usage: USAGE, metrics: METRICS };
    const read: OpenAI.ChatCompletion = received(chatCompletion(IDENTITY, choices, totals));
    expect(read).toMatchObject({
      choices: [
        { index: 0, logprobs: { content: [LOGPROB], refusal: null } },
        { index: 1, message: { content: null, tool_calls: [CALL] }, finish_reason: "tool_calls" },
      ],
      metrics: METRICS,
    });
  });
});

describe("chatChunks", () => {
  const shared = {
    id: "chatcmpl-1",
    object: "chat.completion.chunk",
    created: 1_780_000_000,
    model: "sluice-tiny",
    service_tier: "default",
    system_fingerprint: "fp_1",
  };

  test("chunks of an answer without usage do not mention it", () => {
    const chunks = chatChunks(IDENTITY, { includesUsage: false });
    const first: OpenAI.ChatCompletionChunk = received(
      chunks.delta(3, { role: "assistant", content: "Hi" }),
    );
    expect(first).toEqual({
      ...shared,
      choices: [
        {
          index: 3,
          delta: { role: "assistant", content: "Hi" },
          logprobs: null,
          finish_reason: null,
        },
      ],
    });
    expect(chunks.finish(0, "stop")).toEqual({
      ...shared,
      choices: [{ index: 0, delta: {}, logprobs: null, finish_reason: "stop" }],
    });
  });

  test("log probabilities go with their text, calls by their index", () => {
    const chunks = chatChunks(IDENTITY, { includesUsage: false });
    expect(chunks.delta(0, { content: "Hi" }, [LOGPROB]).choices[0]?.logprobs).toEqual({
      content: [LOGPROB],
      refusal: null,
    });
    const called: OpenAI.ChatCompletionChunk = received(
      chunks.delta(0, { tool_calls: [{ index: 0, ...CALL }] }),
    );
    expect(called.choices[0]?.delta.tool_calls?.[0]?.id).toBe("call_1");
  });

  test("asked for usage, each chunk says null until the one without choices", () => {
    const chunks = chatChunks(IDENTITY, { includesUsage: true });
    expect(chunks.delta(0, { content: "Hi" }).usage).toBeNull();
    expect(chunks.finish(0, "stop").usage).toBeNull();
    const last: OpenAI.ChatCompletionChunk = received(chunks.totals({ usage: USAGE }));
    expect(last).toEqual({ ...shared, choices: [], usage: USAGE });
    expect(chunks.totals({ usage: USAGE, metrics: METRICS }).metrics).toEqual(METRICS);
  });
});

describe("completion", () => {
  const choice = { index: 0, text: "Hi!", logprobs: null, finish_reason: "stop" } as const;
  const shared = {
    id: "chatcmpl-1",
    object: "text_completion",
    created: 1_780_000_000,
    model: "sluice-tiny",
    system_fingerprint: "fp_1",
    choices: [choice],
  };

  test("is what OpenAI's client reads, with usage only where it is given", () => {
    const read: Omit<OpenAI.Completion, "choices" | "usage"> = received(
      completion(IDENTITY, [choice], { usage: USAGE }),
    );
    expect(read).toEqual({ ...shared, usage: USAGE });
    expect(completion(IDENTITY, [choice])).toEqual(shared);
    expect(completion(IDENTITY, [choice], { usage: null })).toEqual({ ...shared, usage: null });
  });
});

describe("modelCard", () => {
  test("is a model of OpenAI's list, with the context length that vLLM's clients read", () => {
    const card: ModelCard = modelCard({
      id: "sluice-tiny",
      createdAtSeconds: 1_780_000_000,
      ownedBy: "sluice",
      contextTokens: 2048,
    });
    const read: OpenAI.Model = received(card);
    expect(read).toEqual({
      id: "sluice-tiny",
      object: "model",
      created: 1_780_000_000,
      owned_by: "sluice",
      max_model_len: 2048,
    });
  });
});
