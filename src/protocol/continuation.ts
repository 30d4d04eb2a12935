import * as z from "zod";

const Count = z.int().min(0);
const TokenIds = z.array(Count);
const FINGERPRINT_CHARACTERS_MAX = 256;

/** What another engine has to know of an answer's beginning to go on with it exactly as it would have gone on. */
export const AnswerStart = z.object({
  /** As it is drawn with, be it the client's or the engine's own choice. */
  seed: z.number(),
  /** Of weights and arithmetic: only an engine with the same ones computes the same tokens. */
  system_fingerprint: z.string().max(FINGERPRINT_CHARACTERS_MAX),
  /** Where the output ends at the latest. */
  output_tokens_max: Count,
  prompt_tokens: Count,
  cached_tokens: Count,
});
export type AnswerStart = z.infer<typeof AnswerStart>;

/** What a chunk of a stream says to the gateway alone: the tokens that it and what came with it are from. */
export const AnswerProgress = z.object({
  token_ids: TokenIds,
  /** In the first chunk that says anything. */
  start: z.optional(AnswerStart),
});
export type AnswerProgress = z.infer<typeof AnswerProgress>;

/** An answer that another engine began: the request for it is to go on behind these tokens. */
export const Continuation = AnswerStart.extend({ token_ids: TokenIds.min(1) });
export type Continuation = z.infer<typeof Continuation>;

/** The member of a request's body that a {@link Continuation} is; a client's own never reaches an engine. */
export const CONTINUATION_MEMBER = "sluice_continuation";
/** The member of a chunk that an {@link AnswerProgress} is; no client sees it. */
export const PROGRESS_MEMBER = "sluice_progress";
