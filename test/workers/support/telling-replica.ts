import type { UpstreamStep } from "../../support/upstream-script.ts";
import { chunkFrame, DONE_FRAME } from "./upstream.ts";

/** What the replicas of these tests say of how an answer began. */
export const START = {
  seed: 7,
  system_fingerprint: "fp_a",
  output_tokens_max: 100,
  prompt_tokens: 12,
  cached_tokens: 4,
};

/** The words of an answer are a token each; the id of a word's token is its place, and 100. */
export const tokenIdsOf = (from: number, to: number): number[] =>
  Array.from({ length: to - from }, (_, index) => 100 + from + index);

/** The head of a stream that says its tokens, behind so many that were there already. */
export function tellingHead(emittedTokens = 0): UpstreamStep {
  const headers = {
    "content-type": "text/event-stream; charset=utf-8",
    "x-gw-tell-tokens": String(emittedTokens),
  };
  return { kind: "head", status: 200, headers };
}

/** A chunk that says its tokens. What its replica calls itself and the answer is told by `name`. */
export function toldFrame(
  choice: object,
  tokenIds: readonly number[],
  { name = "first", isFirst = false } = {},
): UpstreamStep {
  const progress = { token_ids: tokenIds, ...(isFirst && { start: START }) };
  return chunkFrame(choice, { ...namesOf(name), sluice_progress: progress });
}

/** The frames of an answer that one of our engines sends, as it is begun or gone on with behind `from` words. */
export function tellingFrames(words: readonly string[], from = 0, name = "first"): UpstreamStep[] {
  const tokens = words.slice(from).map((content, index) => {
    const place = from + index;
    const isFirst = place === 0;
    const delta = isFirst ? { role: "assistant", content } : { content };
    return toldFrame({ delta }, tokenIdsOf(place, place + 1), { name, isFirst });
  });
  const usage = {
    prompt_tokens: START.prompt_tokens,
    completion_tokens: words.length + 1,
    total_tokens: START.prompt_tokens + words.length + 1,
    prompt_tokens_details: { cached_tokens: START.cached_tokens },
  };
  // The token that ends it has no text.
  const end = tokenIdsOf(words.length, words.length + 1);
  return [
    ...tokens,
    toldFrame({ finish_reason: "stop" }, end, { name }),
    chunkFrame({}, { ...namesOf(name), choices: [], usage }),
    DONE_FRAME,
  ];
}

/** A whole answer of such an engine. */
export function tellingAnswer(words: readonly string[], from = 0, name = "first"): UpstreamStep[] {
  return [tellingHead(from), ...tellingFrames(words, from, name), { kind: "end" }];
}

/** What a replica names its answer, and when it began to it. */
function namesOf(name: string) {
  return { id: `chatcmpl-${name}`, created: name === "first" ? 1_700_000_001 : 1_700_000_999 };
}
