import type { Problem } from "../../../src/protocol/errors.ts";

/**
 * The refusal of a prompt that leaves no room for an answer. Some clients know it only by the
 * words "maximum context length". `isLowerBound` says that the prompt was not encoded.
 */
export function contextLengthExceeded(prompt: {
  readonly contextTokens: number;
  readonly promptTokens: number;
  readonly isLowerBound: boolean;
}): Problem {
  const found = `${prompt.isLowerBound ? "at least " : ""}${prompt.promptTokens}`;
  return {
    code: "context_length_exceeded",
    message:
      `This model's maximum context length is ${prompt.contextTokens} tokens, one of them for ` +
      `the answer: expected messages of at most ${prompt.contextTokens - 1}, found ${found}`,
    param: "messages",
  };
}
