import type { ArrivalSpec } from "../workloads/arrival.ts";
import type { TraceOptions, TraceRecord } from "./trace-arrivals.ts";
import { traceArrivals } from "./trace-arrivals.ts";
import { csvRows } from "./trace-row.ts";

/**
 * Reads the real trace of the VTC paper (OSDI'24) as CSV with `client`, `arrival_s`, `input_tokens`
 * and `output_tokens`; client n is tenant `tenantIndex` + n. Source: Ying1123/VTC-artifact, Apache-2.0.
 */
export function vtcArrivals(
  lines: Iterable<string>,
  options: TraceOptions,
): Generator<ArrivalSpec> {
  return traceArrivals(records(lines, options.tenantIndex ?? 0), options);
}

function* records(lines: Iterable<string>, tenantIndex: number): Generator<TraceRecord> {
  for (const row of csvRows(lines, ["client", "arrival_s", "input_tokens", "output_tokens"])) {
    yield {
      lineNumber: row.lineNumber,
      atMs: row.number("arrival_s") * 1000,
      tenantIndex: tenantIndex + row.whole("client"),
      promptTokens: row.whole("input_tokens"),
      outputTokens: row.whole("output_tokens"),
    };
  }
}
