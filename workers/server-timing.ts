import { CACHE_HIT } from "../src/protocol/headers.ts";
import type { CallRecord } from "./call.ts";
import { startedAtMs } from "./call.ts";

/**
 * Says where a call's time went, as far as that is known when the head goes out: `queue` in the
 * pool, `prefill` from the dispatch to the first token, `ttft` from the start to the first token. A
 * stream's `predicted-ttft` is the bound on the latter that the pool went by when it dispatched; `cache` is
 * there where something of the prompt was found cached.
 */
export function serverTimingOf(record: CallRecord): string {
  const { dispatchedAtMs, queuedMs, stream, predictedTtftMs, usage } = record;
  if (dispatchedAtMs === undefined) return "";
  const cachedTokens = usage?.prompt_tokens_details?.cached_tokens ?? 0;
  const isPromptCached = record.isPromptCached === true || cachedTokens > 0;
  const entries = [`queue;dur=${queuedMs}`];
  const firstTokenAtMs = stream?.firstTokenAtMs;
  if (stream !== undefined && predictedTtftMs !== undefined) {
    entries.push(`predicted-ttft;dur=${predictedTtftMs}`);
  }
  if (firstTokenAtMs !== undefined) {
    entries.push(`prefill;dur=${firstTokenAtMs - dispatchedAtMs}`);
    entries.push(`ttft;dur=${firstTokenAtMs - startedAtMs(record)}`);
  }
  if (isPromptCached) entries.push(CACHE_HIT);
  return entries.join(", ");
}
