import type { Problem } from "../../../src/protocol/errors.ts";
import type { PromptPiece } from "./special-tokens.ts";
import type { Tokenizer } from "./tokenizer.ts";

/** A prompt as the model reads it, or why it cannot. */
export type EncodedPrompt =
  | { readonly kind: "encoded"; readonly promptTokens: readonly number[] }
  | { readonly kind: "refused"; readonly problem: Problem };

/**
 * Encodes pieces that leave a token of the context; what certainly does not is not encoded. Tokens that
 * begin every text come before them.
 */
export function encodeWithin(
  tokenizer: Tokenizer,
  pieces: readonly PromptPiece[],
  options: {
    readonly contextTokens: number;
    readonly param: string;
    readonly beginTokens?: readonly number[];
  },
): EncodedPrompt {
  const { beginTokens = [], ...limit } = options;
  const fewestTokens = beginTokens.length + tokenizer.fewestTokens(pieces);
  if (fewestTokens >= limit.contextTokens) {
    const prompt = { ...limit, promptTokens: fewestTokens, isLowerBound: true };
    return { kind: "refused", problem: contextLengthExceeded(prompt) };
  }
  const promptTokens = [...beginTokens, ...tokenizer.encodePieces(pieces)];
  if (promptTokens.length >= limit.contextTokens) {
    const prompt = { ...limit, promptTokens: promptTokens.length, isLowerBound: false };
    return { kind: "refused", problem: contextLengthExceeded(prompt) };
  }
  return { kind: "encoded", promptTokens };
}

/**
 * The refusal of a prompt that leaves no room for an answer. Some clients know it only by the
 * words "maximum context length". `isLowerBound` says that the prompt was not encoded.
 */
export function contextLengthExceeded(prompt: {
  readonly contextTokens: number;
  readonly promptTokens: number;
  readonly isLowerBound: boolean;
  /** The parameter that the prompt came in. */
  readonly param: string;
}): Problem {
  const found = `${prompt.isLowerBound ? "at least " : ""}${prompt.promptTokens}`;
  return {
    code: "context_length_exceeded",
    message:
      `This model's maximum context length is ${prompt.contextTokens} tokens, one of them for ` +
      `the answer: expected a prompt of at most ${prompt.contextTokens - 1}, found ${found}`,
    param: prompt.param,
  };
}
