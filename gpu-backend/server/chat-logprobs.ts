import type { ChatTokenLogprob } from "../../src/protocol/chat-response.ts";
import type { TokenLogprob } from "../engine/generate-request.ts";
import type { TokenLabels } from "./token-labels.ts";

/** What the API writes for a token that is all but impossible; JSON has no infinity. */
const LOGPROB_MIN = -9999;

/** Returns a log probability as JSON can hold it. */
export function readableLogprob(logprob: number): number {
  return Math.max(logprob, LOGPROB_MIN);
}

/** Writes log probabilities in the shape that chats have. */
export function chatLogprobs(
  labels: TokenLabels,
  logprobs: readonly TokenLogprob[],
): readonly ChatTokenLogprob[] {
  const ranked = (entry: { readonly tokenId: number; readonly logprob: number }) => {
    const { token, bytes } = labels.of(entry.tokenId);
    return { token, logprob: readableLogprob(entry.logprob), bytes };
  };
  return logprobs.map((entry) => ({ ...ranked(entry), top_logprobs: entry.top.map(ranked) }));
}
