import { Template } from "@huggingface/jinja";
import type { ChatMessage } from "../../../src/protocol/chat.ts";
import type { Tool } from "../../../src/protocol/tools.ts";
import { messageOf } from "../message-of.ts";
import { type Exchange, MarkerGuard } from "./marker-guard.ts";
import { type EncodedPrompt, encodeWithin } from "./prompt-limit.ts";
import type { Tokenizer } from "./tokenizer.ts";
import { type ChatTemplateSource, readChatTemplateSource } from "./tokenizer-files.ts";

/** What a chat template needs to know of its model. */
export interface ChatTemplateModel {
  readonly tokenizer: Tokenizer;
  readonly contextTokens: number;
}

/**
 * Turns conversations into prompts by the model's own Jinja template, compiled once.
 *
 * The template's markers become special tokens, equal characters in a message never do: see
 * `MarkerGuard`. For messages without such characters the prompt is exactly what encoding the
 * rendered text as a whole gives.
 */
export class ChatTemplate {
  readonly #template: Template;
  readonly #tokens: ChatTemplateSource["tokens"];
  readonly #model: ChatTemplateModel;
  readonly #guard: MarkerGuard;

  /** Throws if the template does not compile or cannot render a plain question. */
  constructor(source: ChatTemplateSource, model: ChatTemplateModel) {
    this.#template = new Template(source.template);
    this.#tokens = source.tokens;
    this.#model = model;
    const markers = model.tokenizer.specialTokens.contents();
    this.#guard = new MarkerGuard(markers, stringsOf(this.#template.parsed));
    this.#render([{ role: "user", content: "Hello!" }], []);
  }

  /** The special tokens that begin every text of the model; the chat template writes its own. */
  get beginTokens(): readonly number[] {
    const pieces = this.#model.tokenizer.specialTokens.split(this.#tokens.bos_token);
    return pieces.filter((piece) => typeof piece === "number");
  }

  /**
   * Encodes a conversation, and the tools that may be called in it, with the beginning of the
   * assistant's turn behind it. Refuses what the template refuses, and prompts that leave no token
   * for the answer.
   */
  encode(messages: readonly ChatMessage[], tools: readonly Tool[] = []): EncodedPrompt {
    const exchange = this.#guard.exchangeFor(textsOf(messages, tools));
    if (exchange === undefined) return refuse("text with unused private-use characters");
    let rendered: string;
    try {
      rendered = this.#render(
        messages.map((message) => toTemplateMessage(message, exchange.protect)),
        tools.map((tool) => mapStrings(tool, exchange.protect)),
      );
    } catch (error) {
      const reason = messageOf(error);
      return refuse(`what the model's chat template takes: ${exchange.restore(reason)}`);
    }
    return this.#encodeRendered(rendered, exchange);
  }

  #encodeRendered(rendered: string, exchange: Exchange): EncodedPrompt {
    const { tokenizer, contextTokens } = this.#model;
    const pieces = tokenizer.specialTokens
      .split(rendered)
      .map((piece) => (typeof piece === "number" ? piece : exchange.restore(piece)));
    return encodeWithin(tokenizer, pieces, { contextTokens, param: "messages" });
  }

  #render(messages: readonly TemplateMessage[], tools: readonly unknown[]): string {
    return this.#template.render({
      ...this.#tokens,
      messages,
      // Templates ask whether there are any by asking for the list.
      ...(tools.length > 0 && { tools }),
      add_generation_prompt: true,
    });
  }
}

/** Loads the chat template of a model's folder; throws naming the file at fault. */
export async function loadChatTemplate(
  folder: string,
  model: ChatTemplateModel,
): Promise<ChatTemplate> {
  const source = await readChatTemplateSource(folder);
  try {
    return new ChatTemplate(source, model);
  } catch (cause) {
    const reason = messageOf(cause);
    throw new Error(`Cannot use the chat template of ${folder}: ${reason}`, { cause });
  }
}

const REASON_CHARACTERS_MAX = 200;

function refuse(expected: string): EncodedPrompt {
  const message = `Expected 'messages' to be ${expected.slice(0, REASON_CHARACTERS_MAX)}`;
  return { kind: "refused", problem: { code: "invalid_value", message, param: "messages" } };
}

/** A message as templates read it: absent parts are absent keys, but `content` always is text. */
interface TemplateMessage {
  readonly role: ChatMessage["role"];
  readonly content: string;
  readonly name?: string;
  readonly tool_calls?: readonly object[];
  readonly tool_call_id?: string;
}

/**
 * Writes a message for the template with every text of the client's mapped. Of all its strings only
 * the role is ours: the schema has a closed list of it.
 */
function toTemplateMessage(
  message: ChatMessage,
  mapText: (text: string) => string,
): TemplateMessage {
  const content = mapText(message.content ?? "");
  if (message.role === "tool") {
    return { role: message.role, content, tool_call_id: mapText(message.tool_call_id) };
  }
  const name = message.name === undefined ? {} : { name: mapText(message.name) };
  if (message.role !== "assistant" || message.tool_calls === undefined) {
    return { role: message.role, content, ...name };
  }
  const calls = message.tool_calls.map((call) => ({
    id: mapText(call.id),
    type: call.type,
    function: {
      name: mapText(call.function.name),
      arguments: mapText(call.function.arguments),
    },
  }));
  return { role: message.role, content, ...name, tool_calls: calls };
}

/** Copies JSON with every string in it mapped, the names of members among them. */
function mapStrings(json: unknown, mapText: (text: string) => string): unknown {
  if (typeof json === "string") return mapText(json);
  if (Array.isArray(json)) return json.map((entry) => mapStrings(entry, mapText));
  if (typeof json !== "object" || json === null) return json;
  return Object.fromEntries(
    Object.entries(json).map(([key, value]) => [mapText(key), mapStrings(value, mapText)]),
  );
}

/** Collects exactly the texts that `encode` maps, so that none can be forgotten. */
function textsOf(messages: readonly ChatMessage[], tools: readonly Tool[]): string[] {
  const texts: string[] = [];
  const collect = (text: string): string => {
    texts.push(text);
    return text;
  };
  for (const message of messages) toTemplateMessage(message, collect);
  mapStrings(tools, collect);
  return texts;
}

/** Collects the string literals and the plain text of a parsed template. */
function stringsOf(syntax: unknown): string[] {
  if (typeof syntax !== "object" || syntax === null) return [];
  if ("type" in syntax && syntax.type === "StringLiteral" && "value" in syntax) {
    return typeof syntax.value === "string" ? [syntax.value] : [];
  }
  return Object.values(syntax).flatMap((part: unknown) => stringsOf(part));
}
