import type { ArrivalSpec } from "../workloads/arrival.ts";
import { promptBlocksOf } from "./blocks.ts";
import type { TraceOptions, TraceRecord } from "./trace-arrivals.ts";
import { traceArrivals } from "./trace-arrivals.ts";
import { jsonRows } from "./trace-row.ts";

/** Tokens that one of Bailian's hash ids stands for. */
const BAILIAN_BLOCK_TOKENS = 16;

/**
 * Reads the Qwen-Bailian traces: JSON lines with `chat_id`, `parent_chat_id` (−1 for none),
 * `timestamp` (s), `input_length`, `output_length`, `turn` and `hash_ids`. A chat's session is the
 * first chat of its line. Source: alibaba-edu/qwen-bailian-usagetraces-anon, Apache-2.0.
 */
export function bailianArrivals(
  lines: Iterable<string>,
  options: TraceOptions,
): Generator<ArrivalSpec> {
  return traceArrivals(records(lines, options.tenantIndex ?? 0), options);
}

/** Chats whose session is remembered, the oldest forgotten first; a trace has some 100,000. */
const CHATS_MAX = 1_000_000;

function* records(lines: Iterable<string>, tenantIndex: number): Generator<TraceRecord> {
  const sessionOf = new Map<number, number>();
  for (const row of jsonRows(lines)) {
    const chat = row.whole("chat_id");
    const parent = row.whole("parent_chat_id", -1);
    const promptTokens = row.whole("input_length");
    // A parent from before the recording began still names the session.
    const sessionId = parent === -1 ? chat : (sessionOf.get(parent) ?? parent);
    sessionOf.set(chat, sessionId);
    if (sessionOf.size > CHATS_MAX) forgetOldest(sessionOf);
    yield {
      lineNumber: row.lineNumber,
      atMs: row.number("timestamp") * 1000,
      tenantIndex,
      promptTokens,
      outputTokens: row.whole("output_length"),
      sessionId,
      promptBlocks: promptBlocksOf(row, promptTokens, BAILIAN_BLOCK_TOKENS),
    };
  }
}

function forgetOldest(sessionOf: Map<number, number>): void {
  const [oldest] = sessionOf.keys();
  if (oldest !== undefined) sessionOf.delete(oldest);
}
