import * as z from "zod";

/** Where an engine of ours tells what requests that have ended have cost; needs the replica secret. */
export const ENGINE_USAGE_PATH = "/internal/usage";

/** Requests that are asked after in one call. */
export const ENGINE_USAGE_IDS_MAX = 1_000;

/** As the gateway named it, or the engine where nobody did. */
const RequestName = z.string().min(1).max(64);
const Count = z.int().min(0);

export const EngineUsageRequest = z.object({
  request_ids: z.array(RequestName).max(ENGINE_USAGE_IDS_MAX),
});

/** What one request has cost an engine, whether or not anybody read the answer to its end. */
const EndedUsage = z.object({
  request_id: RequestName,
  prompt_tokens: Count,
  cached_tokens: Count,
  completion_tokens: Count,
});
export type EndedUsage = z.infer<typeof EndedUsage>;

/** Of the requests asked after those that the engine remembers. */
export const EngineUsageAnswer = z.object({
  usage: z.array(EndedUsage).max(ENGINE_USAGE_IDS_MAX),
});
export type EngineUsageAnswer = z.infer<typeof EngineUsageAnswer>;
