import * as z from "zod";
import { optional } from "./parameter-schemas.ts";
import type { PromptPart } from "./prompt-parts.ts";

const CACHE_KEY_CHARACTERS_MAX = 1024;

/**
 * By these clients say what of their prompts should be cached and found again. Only the key and the mode
 * change anything: prompts are kept for as long as there is room, and never on disk.
 */
export const CACHE_PARAMETERS = {
  prompt_cache_key: optional(z.string().max(CACHE_KEY_CHARACTERS_MAX)),
  prompt_cache_options: optional(
    z.looseObject({
      mode: optional(z.enum(["implicit", "explicit"])),
      ttl: optional(z.enum(["30m"])),
    }),
  ),
  prompt_cache_retention: optional(z.enum(["in_memory", "24h"])),
  user: optional(z.string()),
};

const Parameters = z.object(CACHE_PARAMETERS);

/** What a request says of how its prompt is cached, and what of it would be. */
export interface RequestCaching {
  /** Of its one prompt; empty where it has several, or is not one that is found again. */
  readonly promptParts: readonly PromptPart[];
  /** The client's own narrowing of its cache. */
  readonly clientSalt: string | undefined;
  readonly cacheKey: string | undefined;
  /** The end user, as the client names it. */
  readonly userName: string | undefined;
  /** True: nothing of it may be cached or read from a cache. */
  readonly isOff: boolean;
}

/** Reads it. Who wants to mark explicitly what is cached and marks nothing wants nothing cached. */
export function cachingOf(
  request: z.infer<typeof Parameters> & { readonly cache_salt?: string | undefined },
  prompt: { readonly parts: readonly PromptPart[]; readonly hasMarks: boolean },
): RequestCaching {
  const isExplicit = request.prompt_cache_options?.mode === "explicit";
  return {
    promptParts: prompt.parts,
    clientSalt: request.cache_salt,
    cacheKey: request.prompt_cache_key,
    userName: request.user,
    isOff: isExplicit && !prompt.hasMarks,
  };
}
