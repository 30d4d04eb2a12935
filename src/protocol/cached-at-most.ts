import * as z from "zod";
import { editMembers } from "./json-text.ts";
import type { UpstreamUsage } from "./upstream-answer.ts";

/**
 * The same counts, of which no more than `tokensMax` were cached: the rest was computed for this answer, on
 * another replica.
 */
export function withCachedAtMost(usage: UpstreamUsage, tokensMax: number): UpstreamUsage {
  const { prompt_tokens_details: details } = usage;
  if ((details?.cached_tokens ?? 0) <= tokensMax) return usage;
  return { ...usage, prompt_tokens_details: { ...details, cached_tokens: tokensMax } };
}

const Counted = z.object({
  usage: z.looseObject({ prompt_tokens_details: z.looseObject({ cached_tokens: z.number() }) }),
});

/** The same of the text of an answer, or of one chunk of it; one that does not count stays as it is. */
export function tellCachedAtMost(json: string, tokensMax: number): string {
  const { data } = Counted.safeParse(JSON.parse(json));
  if (data === undefined || data.usage.prompt_tokens_details.cached_tokens <= tokensMax)
    return json;
  const details = { ...data.usage.prompt_tokens_details, cached_tokens: tokensMax };
  const usage = { ...data.usage, prompt_tokens_details: details };
  return editMembers(json, { usage: JSON.stringify(usage) });
}
