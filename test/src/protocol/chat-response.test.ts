import type OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { chatChunks, chatCompletion, toUsage } from "../../../src/protocol/chat-response.ts";
import { type ModelCard, modelCard } from "../../../src/protocol/model-card.ts";

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

describe("chatCompletion", () => {
  test("is what OpenAI's client reads, with each required key", () => {
    const answer = { content: "Hi!", finishReason: "length", usage: USAGE } as const;
    const completion: OpenAI.ChatCompletion = received(chatCompletion(IDENTITY, answer));
    expect(completion).toEqual({
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
      chunks.delta({ role: "assistant", content: "Hi" }),
    );
    expect(first).toEqual({
      ...shared,
      choices: [
        {
          index: 0,
          delta: { role: "assistant", content: "Hi" },
          logprobs: null,
          finish_reason: null,
        },
      ],
    });
    expect(chunks.finish("stop")).toEqual({
      ...shared,
      choices: [{ index: 0, delta: {}, logprobs: null, finish_reason: "stop" }],
    });
  });

  test("asked for usage, each chunk says null until the one without choices", () => {
    const chunks = chatChunks(IDENTITY, { includesUsage: true });
    expect(chunks.delta({ content: "Hi" }).usage).toBeNull();
    expect(chunks.finish("stop").usage).toBeNull();
    const last: OpenAI.ChatCompletionChunk = received(chunks.usage(USAGE));
    expect(last).toEqual({ ...shared, choices: [], usage: USAGE });
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
