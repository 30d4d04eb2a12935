import type { Continuation } from "../../src/protocol/continuation.ts";
import type { GenerateRequest, TokenLogprob } from "../engine/generate-request.ts";
import type { Answer, ToldToken } from "./answer.ts";
import type { AnswerFormat } from "./answer-format.ts";

/** An answer that is continued has one choice. */
const CHOICE = 0;

/**
 * Brings a new answer to where another engine left it, by its tokens: text that waits for the rest of a
 * character or of a stop string waits here as well, and what was told is not told again. Returns the request
 * that goes on from there.
 *
 * The last token is always computed once more: whether the answer ends with it is then found out as ever, and
 * that it comes out the same shows that both engines compute alike. So are those before it whose log
 * probabilities were not told yet.
 */
export function resumeAnswer(
  { token_ids: tokenIds }: Continuation,
  request: GenerateRequest,
  { answer, format }: { readonly answer: Answer; readonly format: AnswerFormat },
): GenerateRequest {
  const { id, logprobsTop } = request;
  const told = tokenIds.map((tokenId): ToldToken => ({
    tokenId,
    ...(logprobsTop !== undefined && { logprob: unknownLogprob(tokenId) }),
  }));
  for (const token of told) answer.hear({ kind: "token", id, ...token });
  const toldLogprobs = tellAll(answer, format);
  const lastIndex = tokenIds.length - 1;
  const firstIndex = logprobsTop === undefined ? lastIndex : Math.min(lastIndex, toldLogprobs);
  answer.expectAgain(told.slice(firstIndex));
  return { ...request, emittedTokens: tokenIds.slice(0, firstIndex) };
}

/** Writes to nobody what the client has. Returns how many log probabilities are among it. */
function tellAll(answer: Answer, format: AnswerFormat): number {
  let told = 0;
  for (let part = answer.take(); part !== undefined; part = answer.take()) {
    if (part.kind !== "text") continue;
    told += part.logprobs.length;
    format.chunksOf(CHOICE, part);
  }
  return told - format.untoldLogprobs(CHOICE);
}

/** Stands for what is filled in when the token is computed once more; until then nobody is told it. */
function unknownLogprob(tokenId: number): TokenLogprob {
  return { tokenId, logprob: Number.NaN, top: [] };
}
