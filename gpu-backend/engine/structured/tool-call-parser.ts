import { unreachable } from "../../../src/base/assert.ts";
import {
  AFTER_ARGUMENTS,
  BEFORE_ARGUMENTS,
  BEFORE_NAME,
  TOOL_CALL_MARKER,
} from "./tool-call-format.ts";

/** A piece of an answer that may hold calls of tools; calls are counted from 0. */
export type ToolCallPart =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "call-started"; readonly index: number; readonly name: string }
  /** More of the arguments' JSON text, not empty. */
  | { readonly kind: "call-arguments"; readonly index: number; readonly text: string };

const CALL_START = TOOL_CALL_MARKER + BEFORE_NAME;

/**
 * Takes the calls of tools out of an answer while it is written.
 *
 * It reads what the grammar of tool calls lets through, so a call that has begun has the one form
 * there is. Text that could still become the beginning of a call is held back, and nothing else; the parts
 * say the same however the answer was cut into pieces.
 */
export class ToolCallParser {
  #state: "text" | "name" | "arguments" | "end" = "text";
  #held = "";
  #calls = 0;
  readonly #nesting = new JsonNesting();

  /** Calls that have begun so far. */
  get calls(): number {
    return this.#calls;
  }

  /** Takes the next piece of the answer. */
  push(text: string): ToolCallPart[] {
    this.#held += text;
    const parts: ToolCallPart[] = [];
    while (this.#advance(parts));
    return parts;
  }

  /** Returns what was held back when nothing follows. A call that was cut off stays as it is. */
  end(): ToolCallPart[] {
    const text = this.#state === "text" ? this.#held : "";
    this.#held = "";
    return text === "" || text.startsWith(TOOL_CALL_MARKER) ? [] : [{ kind: "text", text }];
  }

  /** Takes one part off the text held. Returns whether there may be another. */
  #advance(parts: ToolCallPart[]): boolean {
    switch (this.#state) {
      case "text":
        return this.#takeText(parts);
      case "name":
        return this.#takeName(parts);
      case "arguments":
        return this.#takeArguments(parts);
      case "end":
        return this.#takeEnd();
    }
    return unreachable(this.#state);
  }

  #takeText(parts: ToolCallPart[]): boolean {
    const start = this.#held.indexOf(CALL_START);
    const length = start === -1 ? this.#held.length - heldLength(this.#held) : start;
    if (length > 0) parts.push({ kind: "text", text: this.#held.slice(0, length) });
    this.#held = this.#held.slice(start === -1 ? length : length + CALL_START.length);
    if (start === -1) return false;
    this.#state = "name";
    return true;
  }

  #takeName(parts: ToolCallPart[]): boolean {
    const end = this.#held.indexOf(BEFORE_ARGUMENTS);
    if (end === -1) return false;
    parts.push({ kind: "call-started", index: this.#calls, name: this.#held.slice(0, end) });
    this.#held = this.#held.slice(end + BEFORE_ARGUMENTS.length);
    this.#calls += 1;
    this.#state = "arguments";
    return true;
  }

  #takeArguments(parts: ToolCallPart[]): boolean {
    const end = this.#nesting.findEnd(this.#held);
    const text = this.#held.slice(0, end);
    if (text !== "") parts.push({ kind: "call-arguments", index: this.#calls - 1, text });
    this.#held = this.#held.slice(text.length);
    if (end === undefined) return false;
    this.#state = "end";
    return true;
  }

  #takeEnd(): boolean {
    if (!this.#held.startsWith(AFTER_ARGUMENTS)) return false;
    this.#held = this.#held.slice(AFTER_ARGUMENTS.length);
    this.#state = "text";
    return true;
  }
}

/** How much of the text's end could be the beginning of a call. */
function heldLength(text: string): number {
  const lengthMax = Math.min(text.length, CALL_START.length - 1);
  for (let length = lengthMax; length > 0; length -= 1) {
    if (text.endsWith(CALL_START.slice(0, length))) return length;
  }
  return 0;
}

/** Follows JSON text to the brace that closes the object around it. */
class JsonNesting {
  #depth = 0;
  #isInString = false;
  #isEscaped = false;

  /** Where in the text the value is over; undefined when it goes on behind it. */
  findEnd(text: string): number | undefined {
    for (let index = 0; index < text.length; index += 1) {
      const character = text[index];
      if (this.#isInString) this.#passInString(character);
      else if (character === '"') this.#isInString = true;
      else if (character === "{" || character === "[") this.#depth += 1;
      else if (character === "]") this.#depth -= 1;
      else if (character === "}") {
        if (this.#depth === 0) return index;
        this.#depth -= 1;
      }
    }
    return undefined;
  }

  #passInString(character: string | undefined): void {
    if (this.#isEscaped) this.#isEscaped = false;
    else if (character === "\\") this.#isEscaped = true;
    else if (character === '"') this.#isInString = false;
  }
}
