import type { PromptChain } from "../../src/protocol/prompt-chain.ts";
import { CHAIN_KEY_LENGTH } from "../../src/protocol/prompt-chain.ts";

/** The beginnings `a`, `ab`, `abc` … of a text, each letter a block of an equal part of it. */
export function chainOfText(text: string): PromptChain {
  return { keys: keysOfText(text).join(""), blockRatio: 1 / Math.max(1, text.length) };
}

/** The names of these beginnings, the shortest first; texts have at most eight letters. */
export function keysOfText(text: string): string[] {
  return Array.from(text, (_, index) => text.slice(0, index + 1).padEnd(CHAIN_KEY_LENGTH, "-"));
}
