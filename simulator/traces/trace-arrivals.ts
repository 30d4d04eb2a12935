import type { ArrivalSpec } from "../workloads/arrival.ts";
import { TraceError } from "./trace-error.ts";

/** Which part of a trace is wanted. */
export interface TraceOptions {
  /** At most so many requests are yielded; the rest of the file is not read. */
  readonly requestsMax: number;
  /** Whose requests these are; the first of them where a trace has several tenants. 0 by default. */
  readonly tenantIndex?: number;
  /** Requests with longer prompts are left out; absent: none are. */
  readonly promptTokensMax?: number;
}

/** What a format says about one request, with time in the format's own epoch. */
export interface TraceRecord extends Omit<ArrivalSpec, "prefixGroup" | "prefixTokens"> {
  readonly lineNumber: number;
}

/**
 * Turns records into arrivals that count from the first record's instant.
 *
 * Traces note failed requests with no tokens; one token is the least that an engine can do. Time that
 * runs backwards is an error: sorting would need the whole file.
 */
export function* traceArrivals(
  records: Iterable<TraceRecord>,
  { requestsMax, promptTokensMax = Infinity }: TraceOptions,
): Generator<ArrivalSpec> {
  if (requestsMax < 1) return;
  let firstAtMs: number | undefined;
  let lastAtMs = -Infinity;
  let count = 0;
  for (const { lineNumber, ...record } of records) {
    if (record.atMs < lastAtMs) {
      throw new TraceError(lineNumber, "rows in order of time", "an earlier instant");
    }
    lastAtMs = record.atMs;
    firstAtMs ??= record.atMs;
    if (record.promptTokens > promptTokensMax) continue;
    yield {
      ...record,
      atMs: record.atMs - firstAtMs,
      promptTokens: Math.max(1, record.promptTokens),
      outputTokens: Math.max(1, record.outputTokens),
      prefixGroup: 0,
      prefixTokens: 0,
    };
    count += 1;
    if (count >= requestsMax) return;
  }
}
