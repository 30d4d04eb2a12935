import * as z from "zod";
import { choiceNotation, section, switchNotation } from "./notation.ts";

/** What of a tenant's requests is kept to be found again, as `sluice.yaml` has it. */
export const CacheSection = section({
  prompts: switchNotation().exactOptional(),
  answers: switchNotation().exactOptional(),
  scope: choiceNotation(["tenant", "user"], "tenant or user").exactOptional(),
});

/** The same with nothing left open. */
export const LiveCache = z.strictObject({
  /** Whether prompts may be found cached at replicas. */
  prompts: z.boolean(),
  /** Whether the answer to a request that allows only one is given again. */
  answers: z.boolean(),
  /** Who shares what is cached: all of the tenant's requests, or those of one end user. */
  scope: z.enum(["tenant", "user"]),
});
export type LiveCache = z.infer<typeof LiveCache>;

/** What holds for a tenant that says nothing. */
export const CACHE_DEFAULTS: LiveCache = { prompts: true, answers: false, scope: "tenant" };

/** Fills in what a section leaves open; nothing where it is absent, as most are. */
export function resolveCache(written: z.infer<typeof CacheSection> | undefined) {
  return written !== undefined && { cache: { ...CACHE_DEFAULTS, ...written } };
}
