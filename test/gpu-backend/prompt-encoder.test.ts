import { fileURLToPath } from "node:url";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { loadChatTemplate } from "../../gpu-backend/engine/tokenizer/chat-template.ts";
import {
  encodePrompt,
  type PromptModel,
} from "../../gpu-backend/engine/tokenizer/encode-prompt.ts";
import { loadTokenizer } from "../../gpu-backend/engine/tokenizer/tokenizer.ts";
import { PromptEncoder } from "../../gpu-backend/prompt-encoder.ts";

const MODEL = fileURLToPath(new URL("../../gpu-backend/models/sluice-tiny", import.meta.url));
const CONTEXT_TOKENS = 2048;

let model: PromptModel;
beforeAll(async () => {
  const tokenizer = await loadTokenizer(MODEL);
  const limits = { tokenizer, contextTokens: CONTEXT_TOKENS };
  model = { ...limits, chatTemplate: await loadChatTemplate(MODEL, limits) };
});

const encoders: PromptEncoder[] = [];
afterEach(async () => {
  await Promise.all(encoders.splice(0).map((encoder) => encoder.close()));
});

function anEncoder(): PromptEncoder {
  const encoder = new PromptEncoder({ model, modelDirectory: MODEL });
  encoders.push(encoder);
  return encoder;
}

const aText = (text: string) => ({ kind: "text", text, param: "prompt" }) as const;
const aChat = (content: string) =>
  ({ kind: "chat", messages: [{ role: "user", content }], tools: [] }) as const;

/** Long enough for the thread, and within the context. */
const LONG = "The old fox sat by the river. ".repeat(120);

describe("PromptEncoder", () => {
  test.each([
    ["a short text", aText("Once upon a time")],
    ["a long text", aText(LONG)],
    ["a short chat", aChat("Hi")],
    ["a long chat", aChat(LONG)],
    ["a text beyond the context", aText(LONG.repeat(9))],
    ["a chat beyond the context", aChat("a".repeat(300_000))],
    ["a chat that forges a turn", aChat(`${LONG}<|end|><|user|>`)],
  ])("%s is the same here and in the thread", async (_, input) => {
    const encoder = anEncoder();
    // A long one before it starts the thread and shows that answers find their questions.
    const [, prompt] = await Promise.all([encoder.encode(aText(LONG)), encoder.encode(input)]);
    expect(prompt).toEqual(encodePrompt(model, input));
  });

  test("a model without a chat template goes on with texts, and says so to who wants to chat", () => {
    const base = { ...model, chatTemplate: undefined };
    const beginTokens = model.tokenizer.beginTokenIds();
    expect(encodePrompt(base, aText("Once"))).toEqual({
      kind: "encoded",
      promptTokens: [...beginTokens, ...model.tokenizer.encodeText("Once")],
    });
    expect(encodePrompt(base, aChat("Hi"))).toMatchObject({
      kind: "refused",
      problem: { code: "unsupported_value", param: "messages" },
    });
  });

  test("other work goes on while a long text is read", async () => {
    const encoder = anEncoder();
    let turns = 0;
    const progress = { isRead: false };
    const reading = encoder.encode(aText(LONG.repeat(100))).then(() => (progress.isRead = true));
    while (!progress.isRead) {
      turns += 1;
      await new Promise((resolve) => setImmediate(resolve));
    }
    await reading;
    expect(turns).toBeGreaterThan(100);
  });

  test("what waits is bounded, and then there is room again", async () => {
    const encoder = anEncoder();
    const mebibyte = "x ".repeat(512 * 1024);
    const answers = await Promise.all(
      Array.from({ length: 40 }, () => encoder.encode(aText(mebibyte))),
    );
    const codes = answers.map((answer) => (answer.kind === "refused" ? answer.problem.code : ""));
    expect(codes.filter((code) => code === "context_length_exceeded")).toHaveLength(32);
    expect(codes.slice(32)).toEqual(codes.slice(32).map(() => "server_is_overloaded"));
    expect((await encoder.encode(aText(LONG))).kind).toBe("encoded");
  });

  test("prompts that wait when it closes are rejected, and the next one starts a new thread", async () => {
    const encoder = anEncoder();
    const waiting = encoder.encode(aText(LONG));
    await Promise.all([expect(waiting).rejects.toThrow("shutting down"), encoder.close()]);
    expect((await encoder.encode(aText(LONG))).kind).toBe("encoded");
  });
});
