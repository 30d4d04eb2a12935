import type { CallRecord } from "./call.ts";
import { startedAtMs } from "./call.ts";

/**
 * Says where a call's time went, as far as that is known when the head goes out: `queue` in the
 * pool, `prefill` from the dispatch to the first token, `ttft` from the start to the first token.
 */
export function serverTimingOf(record: CallRecord): string {
  const { dispatchedAtMs, queuedMs, stream } = record;
  if (dispatchedAtMs === undefined) return "";
  const entries = [`queue;dur=${queuedMs}`];
  const firstTokenAtMs = stream?.firstTokenAtMs;
  if (firstTokenAtMs !== undefined) {
    entries.push(`prefill;dur=${firstTokenAtMs - dispatchedAtMs}`);
    entries.push(`ttft;dur=${firstTokenAtMs - startedAtMs(record)}`);
  }
  return entries.join(", ");
}
