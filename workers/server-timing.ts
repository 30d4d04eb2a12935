import type { CallRecord } from "./call.ts";
import { startedAtMs } from "./call.ts";

/**
 * Says where a call's time went, as far as that is known when the head goes out: `queue` in the
 * pool, `prefill` from the dispatch to the first token, `ttft` from the start to the first token. A
 * stream's `predicted-ttft` is the bound on the latter that the pool went by when it dispatched.
 */
export function serverTimingOf(record: CallRecord): string {
  const { dispatchedAtMs, queuedMs, stream, predictedTtftMs } = record;
  if (dispatchedAtMs === undefined) return "";
  const entries = [`queue;dur=${queuedMs}`];
  const firstTokenAtMs = stream?.firstTokenAtMs;
  if (stream !== undefined && predictedTtftMs !== undefined) {
    entries.push(`predicted-ttft;dur=${predictedTtftMs}`);
  }
  if (firstTokenAtMs !== undefined) {
    entries.push(`prefill;dur=${firstTokenAtMs - dispatchedAtMs}`);
    entries.push(`ttft;dur=${firstTokenAtMs - startedAtMs(record)}`);
  }
  return entries.join(", ");
}
