import type { ArrivalSpec } from "../workloads/arrival.ts";
import { promptBlocksOf } from "./blocks.ts";
import type { TraceOptions, TraceRecord } from "./trace-arrivals.ts";
import { traceArrivals } from "./trace-arrivals.ts";
import { jsonRows } from "./trace-row.ts";

/** Tokens that one of Mooncake's hash ids stands for. */
const MOONCAKE_BLOCK_TOKENS = 512;

/**
 * Reads Mooncake's traces: JSON lines with `timestamp` (ms), `input_length`, `output_length` and
 * `hash_ids`, equal where prompts are equal so far. Source: kvcache-ai/Mooncake (FAST'25), Apache-2.0.
 */
export function mooncakeArrivals(
  lines: Iterable<string>,
  options: TraceOptions,
): Generator<ArrivalSpec> {
  return traceArrivals(records(lines, options.tenantIndex ?? 0), options);
}

function* records(lines: Iterable<string>, tenantIndex: number): Generator<TraceRecord> {
  for (const row of jsonRows(lines)) {
    const promptTokens = row.whole("input_length");
    yield {
      lineNumber: row.lineNumber,
      atMs: row.number("timestamp"),
      tenantIndex,
      promptTokens,
      outputTokens: row.whole("output_length"),
      promptBlocks: promptBlocksOf(row, promptTokens, MOONCAKE_BLOCK_TOKENS),
    };
  }
}
