import type { ChatMessage } from "../../../src/protocol/chat.ts";
import type { Tool } from "../../../src/protocol/tools.ts";
import { messageOf } from "../message-of.ts";
import { BoundedTemplate, type RenderBudget } from "./bounded-template.ts";
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
  readonly #template: BoundedTemplate;
  readonly #templateText: string;
  readonly #tokens: ChatTemplateSource["tokens"];
  readonly #model: ChatTemplateModel;
  readonly #guard: MarkerGuard;
  /** Whether it takes the arguments of a call as the JSON text that they come as. */
  readonly #takesText: boolean;

  /** Throws if the template does not compile or cannot render a plain question. */
  constructor(source: ChatTemplateSource, model: ChatTemplateModel) {
    this.#template = new BoundedTemplate(source.template);
    this.#templateText = source.template;
    this.#tokens = source.tokens;
    this.#model = model;
    const markers = model.tokenizer.specialTokens.contents();
    this.#guard = new MarkerGuard(markers, stringsOf(this.#template.parsed));
    this.#render([HELLO], []);
    this.#takesText = this.#writes(ARGUMENTS_TEXT) || !this.#writes(JSON.parse(ARGUMENTS_TEXT));
  }

  /**
   * The special tokens that begin every text of the model; the chat template writes its own. A tokenizer
   * that leaves them open has those that the template asks for by their name.
   */
  get beginTokens(): readonly number[] {
    const asked = this.#templateText.includes("bos_token") ? [this.#tokens.bos_token] : [];
    return this.#model.tokenizer.beginTokenIds(asked);
  }

  /**
   * Encodes a conversation, and the tools that may be called in it, with the beginning of the
   * assistant's turn behind it. Refuses what the template refuses, and prompts that leave no token
   * for the answer.
   */
  encode(messages: readonly ChatMessage[], tools: readonly Tool[] = []): EncodedPrompt {
    const exchange = this.#guard.exchangeFor(textsOf(messages, tools, this.#takesText));
    if (exchange === undefined) return refuse("text with unused private-use characters");
    let rendered: string;
    try {
      rendered = this.#render(
        messages.map((message) => toTemplateMessage(message, exchange.protect, this.#takesText)),
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
    const variables = {
      ...this.#tokens,
      messages,
      // Templates ask whether there are any by asking for the list.
      ...(tools.length > 0 && { tools }),
      add_generation_prompt: true,
    };
    return this.#template.render(variables, budgetOf(variables));
  }

  /** Whether the template writes the arguments of a call as JSON if they are given in this form. */
  #writes(args: unknown): boolean {
    const call = { name: "probe", arguments: args };
    const tool_calls = [{ id: "call00000", type: "function", function: call }];
    try {
      const rendered = this.#render([HELLO, { role: "assistant", content: "", tool_calls }], []);
      return ARGUMENTS_WRITTEN.test(rendered);
    } catch {
      return false;
    }
  }
}

const HELLO: TemplateMessage = { role: "user", content: "Hello!" };
const ARGUMENTS_TEXT = '{"probe":"value"}';
const ARGUMENTS_WRITTEN = /\{\s*"probe"\s*:\s*"value"\s*\}/;

/** Templates read every message a few times, and every part of a tool. */
const STEPS_BASE = 200_000;
const STEPS_PER_PART = 5000;
const CHARACTERS_BASE = 1 << 24;
const CHARACTERS_PER_CHARACTER = 200;

/** What is far more than a template needs for a conversation of this size. */
function budgetOf(variables: {
  readonly messages: readonly unknown[];
  readonly tools?: readonly unknown[];
}): RenderBudget {
  const { length } = JSON.stringify(variables);
  const parts = variables.messages.length + length / 100;
  return {
    steps: STEPS_BASE + STEPS_PER_PART * parts,
    characters: CHARACTERS_BASE + CHARACTERS_PER_CHARACTER * length,
  };
}

/** Loads the chat template of a model's folder, if it has one; throws naming the file at fault. */
export async function loadChatTemplate(
  folder: string,
  model: ChatTemplateModel,
): Promise<ChatTemplate | undefined> {
  const source = await readChatTemplateSource(folder);
  if (source === undefined) return undefined;
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
  takesText: boolean,
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
      arguments: mapStrings(
        takesText ? call.function.arguments : parsedArguments(call.function.arguments),
        mapText,
      ),
    },
  }));
  return { role: message.role, content, ...name, tool_calls: calls };
}

/** Many templates write arguments as JSON themselves; a text that is none they may write as it is. */
function parsedArguments(text: string): unknown {
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === "object" && parsed !== null ? parsed : text;
  } catch {
    return text;
  }
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
function textsOf(
  messages: readonly ChatMessage[],
  tools: readonly Tool[],
  takesText: boolean,
): string[] {
  const texts: string[] = [];
  const collect = (text: string): string => {
    texts.push(text);
    return text;
  };
  for (const message of messages) toTemplateMessage(message, collect, takesText);
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
