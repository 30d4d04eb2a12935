import type { ChatRequestShape } from "./chat.ts";
import type { TextInput } from "./text-input.ts";

/**
 * What a request brings to its prompt, piece by piece, in the order in which templates render it. Whatever
 * does not enter the prompt (sampling, labels, marks for caches) is not among it.
 */
export interface PromptPart {
  readonly kind:
    | "tools"
    | "role"
    | "content"
    | "name"
    | "call-name"
    | "call-arguments"
    | "text"
    | "tokens";
  /** One after the other; what is no text stands for itself by its hash. */
  readonly pieces: readonly PromptPiece[];
}

interface PromptPiece {
  readonly kind: "text" | "media";
  /** Of media its JSON. */
  readonly text: string;
}

/** By these clients say where a prompt might be cached up to; they are no part of it. */
const CACHE_MARKS = ["cache_control", "prompt_cache_breakpoint"] as const;

/** Returns the parts of a conversation. Tools that must not be called are not shown to the model. */
export function chatParts(chat: ChatRequestShape): PromptPart[] {
  const { tools, tool_choice: toolChoice, messages } = chat;
  const areShown = Array.isArray(tools) && tools.length > 0 && toolChoice !== "none";
  const shown = areShown ? [partOf("tools", JSON.stringify(tools.map(withoutMarks)))] : [];
  return [...shown, ...messages.flatMap(messageParts)];
}

/** Returns the parts of a text, or of the tokens that its author made of it. */
export function textParts(input: TextInput): PromptPart[] {
  if (input.kind === "text") return [partOf("text", input.text)];
  // A space behind each, so that one list begins with another as text only if it does as tokens.
  return [partOf("tokens", input.tokenIds.map((tokenId) => `${tokenId} `).join(""))];
}

/** Whether a conversation says anywhere up to where it might be cached. */
export function hasCacheMarks({ tools, messages }: ChatRequestShape): boolean {
  if (Array.isArray(tools) && tools.some(isMarked)) return true;
  return messages.some(
    (message) =>
      isMarked(message) || (Array.isArray(message.content) && message.content.some(isMarked)),
  );
}

type Message = ChatRequestShape["messages"][number];

function messageParts(message: Message): PromptPart[] {
  const { role, content = "" } = message;
  const name: unknown = message["name"];
  const calls: unknown = message["tool_calls"];
  return [
    partOf("role", role === "developer" ? "system" : role),
    {
      kind: "content",
      pieces: typeof content === "string" ? [textPiece(content)] : content.map(pieceOf),
    },
    ...(typeof name === "string" ? [partOf("name", name)] : []),
    ...(Array.isArray(calls) ? calls.flatMap(callParts) : []),
  ];
}

function callParts(call: unknown): PromptPart[] {
  const called: unknown = isObject(call) ? call["function"] : undefined;
  const { name, arguments: text } = isObject(called) ? called : NOTHING;
  return [
    partOf("call-name", typeof name === "string" ? name : ""),
    partOf("call-arguments", typeof text === "string" ? text : ""),
  ];
}

function pieceOf(part: { readonly type: string; readonly [name: string]: unknown }): PromptPiece {
  const { text } = part;
  if (typeof text === "string") return textPiece(text);
  return { kind: "media", text: JSON.stringify(withoutMarks(part)) };
}

function partOf(kind: PromptPart["kind"], text: string): PromptPart {
  return { kind, pieces: [textPiece(text)] };
}

function textPiece(text: string): PromptPiece {
  return { kind: "text", text };
}

const NOTHING: Readonly<Record<string, unknown>> = {};

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

function isMarked(value: unknown): boolean {
  if (!isObject(value)) return false;
  return CACHE_MARKS.some((mark) => Object.hasOwn(value, mark) && value[mark] !== null);
}

function withoutMarks(value: unknown): unknown {
  if (!isObject(value) || !isMarked(value)) return value;
  const entries = Object.entries(value);
  return Object.fromEntries(entries.filter(([name]) => !CACHE_MARKS.some((mark) => mark === name)));
}
