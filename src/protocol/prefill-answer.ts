import * as z from "zod";

const Count = z.int().min(0);

/**
 * The whole answer to a request that had `x-gw-prefill-only`. An engine that does not know the header answers
 * as it ever does, which is no object of this kind: its KV is as good, and the rest is to be ended.
 */
export const PrefillAnswer = z.object({
  object: z.literal("prefill"),
  prompt_tokens: Count,
  /** Of those, had before: nothing was computed for them. */
  cached_tokens: Count,
  /** Of the prompt's beginning, kept for who fetches it; 0 where nothing of it could be used elsewhere. */
  held_tokens: Count,
});
export type PrefillAnswer = z.infer<typeof PrefillAnswer>;
