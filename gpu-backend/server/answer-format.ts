import type { TokenLogprob } from "../engine/generate-request.ts";
import type { AnswerTotals } from "../../src/protocol/usage.ts";
import type { FinishedPart, PromptPart, TextPart } from "./answer.ts";

/** All of one choice, read to its end. */
export interface CollectedChoice {
  readonly text: string;
  readonly logprobs: readonly TokenLogprob[];
  readonly promptLogprobs: readonly (TokenLogprob | undefined)[];
  readonly reason: FinishedPart["reason"];
}

/**
 * How one route writes the answer to one request, whole or in chunks. It remembers what its chunks
 * have told, so there is one to a request.
 */
export interface AnswerFormat {
  /** The chunks that a part of a choice adds to a stream, in order. */
  chunksOf(choice: number, part: PromptPart | TextPart | FinishedPart): readonly object[];
  /** How many log probabilities of a choice no chunk has told yet, of those that parts brought. */
  untoldLogprobs(choice: number): number;
  /** The last chunk, for clients that asked for usage. */
  totalsChunk(totals: AnswerTotals): object;
  /** The whole answer. */
  bodyOf(choices: readonly CollectedChoice[], totals: AnswerTotals): object;
}
