import type { TokenLogprob } from "../../gpu-backend/engine/generate-request.ts";
import { Detokenizer } from "../../gpu-backend/engine/tokenizer/detokenizer.ts";
import { StopStrings } from "../../gpu-backend/engine/tokenizer/stop-strings.ts";
import { TokenBytes } from "../../gpu-backend/engine/tokenizer/token-bytes.ts";
import { Answer } from "../../gpu-backend/server/answer.ts";
import { AnswerText } from "../../gpu-backend/server/answer-text.ts";
import type { EngineEvent } from "../../gpu-backend/thread-messages.ts";

/** Ends an answer whose other tokens are bytes. */
export const END_TOKEN = 256;

/** A vocabulary in which every byte is a token. */
const BYTE_TOKENS = new TokenBytes(
  new Map(Array.from({ length: 256 }, (_, byte) => [byte, Uint8Array.of(byte)])),
);

export interface ByteAnswerOptions {
  readonly stop?: readonly string[];
  readonly isIncluded?: boolean;
  readonly outputTokensMin?: number;
}

/** An answer of byte tokens, and how often it asked the engine to stop. */
export function aByteAnswer(options: ByteAnswerOptions = {}) {
  let cancels = 0;
  const text = new AnswerText({
    detokenizer: new Detokenizer(BYTE_TOKENS),
    stopStrings: new StopStrings(options.stop ?? [], { isIncluded: options.isIncluded ?? false }),
    silentTokenIds: new Set([END_TOKEN]),
    outputTokensMin: options.outputTokensMin ?? 0,
  });
  return { answer: new Answer(text, () => (cancels += 1)), cancels: () => cancels };
}

/** The tokens that a text is made of. */
export function tokensOf(text: string, withLogprobs = false): EngineEvent[] {
  return Array.from(new TextEncoder().encode(text), (tokenId): EngineEvent => {
    const token = { kind: "token" as const, id: "a", tokenId };
    return withLogprobs ? { ...token, logprob: aLogprob(tokenId) } : token;
  });
}

export function aLogprob(tokenId: number): TokenLogprob {
  return { tokenId, logprob: -tokenId, top: [] };
}

/** The end of an answer to a prompt of five tokens, two of them cached. */
export function finishedBy(
  reason: "stop" | "length" | "cancelled",
  outputTokens: number,
): EngineEvent {
  return { kind: "finished", id: "a", reason, promptTokens: 5, cachedTokens: 2, outputTokens };
}
