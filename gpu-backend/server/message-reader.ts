import { randomBytes } from "node:crypto";
import type { ChatDelta, FinishReason, ToolCall } from "../../src/protocol/chat-response.ts";
import { type ToolCallPart, ToolCallParser } from "../engine/structured/tool-call-parser.ts";
import type { FinishedPart } from "./answer.ts";

/** Reads one choice's text as what a message is made of: content, and calls of tools if there may be. */
export class MessageReader {
  readonly #parser: ToolCallParser | undefined;
  #hasRole = false;

  constructor(options: { readonly mayCallTools: boolean }) {
    this.#parser = options.mayCallTools ? new ToolCallParser() : undefined;
  }

  /** Returns what a piece of text adds to the message; of the first piece at least the role. */
  push(text: string): readonly ChatDelta[] {
    const parser = this.#parser;
    if (parser === undefined) return this.#withRole([{ content: text }]);
    return this.#withRole(parser.push(text).map(toDelta));
  }

  /** Returns what was held back and is no call. */
  end(): readonly ChatDelta[] {
    return this.#parser?.end().map(toDelta) ?? [];
  }

  /** Why the message ended, by why its text did. A call that was cut off is no reason to make it. */
  finishReason(reason: FinishedPart["reason"]): FinishReason {
    const hasCalls = this.#parser !== undefined && this.#parser.calls > 0;
    return hasCalls && reason === "stop" ? "tool_calls" : reason;
  }

  #withRole(deltas: readonly ChatDelta[]): readonly ChatDelta[] {
    if (this.#hasRole) return deltas;
    this.#hasRole = true;
    const [first, ...others] = deltas;
    return [{ role: "assistant", ...first }, ...others];
  }
}

/** A message of which nothing more comes. */
export interface WholeMessage {
  /** Null in a message that only calls tools. */
  readonly content: string | null;
  readonly toolCalls: readonly ToolCall[];
  /** Why the message ended, by why its text did. */
  finishReason(reason: FinishedPart["reason"]): FinishReason;
}

/** The message that a whole text is. */
export function readMessage(
  text: string,
  options: { readonly mayCallTools: boolean },
): WholeMessage {
  const reader = new MessageReader(options);
  let content = "";
  const calls: { id: string; name: string; json: string }[] = [];
  for (const delta of [...reader.push(text), ...reader.end()]) {
    content += delta.content ?? "";
    for (const call of delta.tool_calls ?? []) {
      const begun = (calls[call.index] ??= { id: call.id ?? "", name: "", json: "" });
      begun.name += call.function.name ?? "";
      begun.json += call.function.arguments;
    }
  }
  const toolCalls = calls.map(({ id, name, json }) => ({
    id,
    type: "function" as const,
    function: { name, arguments: json },
  }));
  return {
    content: content === "" && calls.length > 0 ? null : content,
    toolCalls,
    finishReason: (reason) => reader.finishReason(reason),
  };
}

function toDelta(part: ToolCallPart): ChatDelta {
  switch (part.kind) {
    case "text":
      return { content: part.text };
    case "call-started": {
      const id = `call_${randomBytes(12).toString("hex")}`;
      const begun = { name: part.name, arguments: "" };
      return { tool_calls: [{ index: part.index, id, type: "function", function: begun }] };
    }
    case "call-arguments":
      return { tool_calls: [{ index: part.index, function: { arguments: part.text } }] };
  }
  return part satisfies never;
}
