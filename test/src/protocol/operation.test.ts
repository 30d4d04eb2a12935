import { describe, expect, test } from "vitest";
import type { Operation } from "../../../src/protocol/operation.ts";
import { CHAT, EMBEDDINGS, TEXT_COMPLETION } from "../../../src/protocol/operation.ts";

const text = (value: string) => ({ kind: "text", text: value });

const inputs = (length: number) => ({ model: "m", input: Array.from({ length }, () => "a") });

function outlineOf(operation: Operation, body: object) {
  const outline = operation.outline({ model: "m", ...body });
  if (outline.kind === "invalid") throw new Error(outline.problem.message);
  return outline.value;
}

const piece = (words: string) => ({ kind: "text", text: words });
const part = (kind: string, words: string) => ({ kind, pieces: [piece(words)] });

describe("a request's outline", () => {
  test("has of a chat the text of all its messages as one prompt", () => {
    const messages = [
      { role: "system", content: "Be brief." },
      { role: "user", content: [{ type: "text", text: "Hi" }, { type: "image_url" }] },
      { role: "assistant", content: null },
    ];
    expect(outlineOf(CHAT, { messages, n: 3, max_tokens: 9, cache_salt: "s" })).toEqual({
      modelId: "m",
      prompts: [text("Be brief.Hi")],
      outputTokensMax: 9,
      choiceCount: 3,
      isStreamed: false,
      streamOptions: undefined,
      caching: {
        promptParts: [
          part("role", "system"),
          part("content", "Be brief."),
          part("role", "user"),
          {
            kind: "content",
            pieces: [piece("Hi"), { kind: "media", text: '{"type":"image_url"}' }],
          },
          part("role", "assistant"),
          part("content", ""),
        ],
        clientSalt: "s",
        cacheKey: undefined,
        userName: undefined,
        isOff: false,
      },
      unknownParameterCount: 0,
    });
  });

  test("counts parameters that the API does not have, and not those that are without effect", () => {
    const body = { messages: [{ role: "user", content: "Hi" }], user: "u", top_k: 3 };
    expect(outlineOf(CHAT, { ...body, guided_regex: "a", reasoning: {} })).toMatchObject({
      unknownParameterCount: 2,
    });
  });

  test("has of a completion each prompt by itself, and so many choices of each", () => {
    const outline = outlineOf(TEXT_COMPLETION, { prompt: ["a", "b"], n: 2, stream: true });
    expect(outline).toMatchObject({ choiceCount: 4, isStreamed: true });
    expect(outline.prompts).toEqual([text("a"), text("b")]);
  });

  test.each([
    [undefined, 16],
    [5, 5],
    [0, 1],
  ])("of a completion with max_tokens %s expects at most %i tokens", (maxTokens, expected) => {
    const body = { prompt: "a", ...(maxTokens !== undefined && { max_tokens: maxTokens }) };
    expect(outlineOf(TEXT_COMPLETION, body).outputTokensMax).toBe(expected);
  });

  test("has of embeddings one answer of one step, and no stream whatever is said", () => {
    const outline = outlineOf(EMBEDDINGS, { input: [[1, 2], [3]], stream: true, n: 4 });
    expect(outline).toMatchObject({ outputTokensMax: 1, choiceCount: 1, isStreamed: false });
    expect(outline.prompts).toEqual([
      { kind: "tokens", tokenIds: [1, 2] },
      { kind: "tokens", tokenIds: [3] },
    ]);
  });

  test("takes more inputs of embeddings than our own engine does, and not without end", () => {
    expect(EMBEDDINGS.outline(inputs(2048)).kind).toBe("valid");
    expect(EMBEDDINGS.outline(inputs(2049))).toMatchObject({
      problem: { code: "array_above_max_length", param: "input" },
    });
  });
});

describe("a whole answer", () => {
  const usage = { prompt_tokens: 3, completion_tokens: 2 };

  test.each([CHAT, TEXT_COMPLETION])("of $name has its counts, if it has any", ({ readAnswer }) => {
    const choices = [{ finish_reason: "stop" }];
    expect(readAnswer({ choices, usage })).toEqual({ usage });
    expect(readAnswer({ choices, usage: "many" })).toEqual({ usage: undefined });
  });

  test("of embeddings counts no output", () => {
    const data = [{ embedding: "AAAA" }];
    expect(EMBEDDINGS.readAnswer({ data, usage: { prompt_tokens: 3, total_tokens: 3 } })).toEqual({
      usage: { prompt_tokens: 3, completion_tokens: 0 },
    });
    expect(EMBEDDINGS.readAnswer({ data })).toEqual({ usage: undefined });
  });

  test.each([
    ["has no choices", CHAT, { choices: [] }],
    ["was cut by its server", TEXT_COMPLETION, { choices: [{ finish_reason: "abort" }] }],
    ["has no vectors", EMBEDDINGS, { data: [] }],
    ["is of another operation", EMBEDDINGS, { choices: [{ finish_reason: "stop" }] }],
    ["is no object", CHAT, null],
  ])("that %s is none", (_, { readAnswer }, body) => {
    expect(readAnswer(body)).toBeUndefined();
  });
});
