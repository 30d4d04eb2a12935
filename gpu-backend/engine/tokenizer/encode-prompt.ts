import type { ChatMessage } from "../../../src/protocol/chat.ts";
import type { Tool } from "../../../src/protocol/tools.ts";
import type { ChatTemplate } from "./chat-template.ts";
import { type EncodedPrompt, encodeWithin } from "./prompt-limit.ts";
import type { Tokenizer } from "./tokenizer.ts";

/** What a client sends to be made a prompt of. */
export type PromptInput =
  | {
      readonly kind: "chat";
      readonly messages: readonly ChatMessage[];
      readonly tools: readonly Tool[];
    }
  /** Text that the model goes on with, and the parameter that it came in. */
  | { readonly kind: "text"; readonly text: string; readonly param: string };

/** The text side of one model. */
export interface PromptModel {
  readonly tokenizer: Tokenizer;
  /** Undefined for a model that only goes on with texts. */
  readonly chatTemplate: ChatTemplate | undefined;
  readonly contextTokens: number;
}

const NO_CHAT: EncodedPrompt = {
  kind: "refused",
  problem: {
    code: "unsupported_value",
    message: "This model has no chat template: expected a prompt for /v1/completions",
    param: "messages",
  },
};

/** Encodes a conversation or a text. Refuses prompts that leave no token for an answer. */
export function encodePrompt(model: PromptModel, input: PromptInput): EncodedPrompt {
  const { tokenizer, chatTemplate, contextTokens } = model;
  if (input.kind === "chat") {
    return chatTemplate?.encode(input.messages, input.tools) ?? NO_CHAT;
  }
  const beginTokens = chatTemplate?.beginTokens ?? tokenizer.beginTokenIds();
  return encodeWithin(tokenizer, [input.text], { beginTokens, contextTokens, param: input.param });
}

/** The characters that an input makes the tokenizer read, as a measure of the work in it. */
export function charactersOf(input: PromptInput): number {
  if (input.kind === "text") return input.text.length;
  const messageCharacters = input.messages.reduce((sum, message) => {
    const calls = message.role === "assistant" ? (message.tool_calls ?? []) : [];
    const callCharacters = calls.reduce((count, call) => count + call.function.arguments.length, 0);
    return sum + (message.content?.length ?? 0) + callCharacters;
  }, 0);
  return input.tools.length === 0
    ? messageCharacters
    : messageCharacters + JSON.stringify(input.tools).length;
}
