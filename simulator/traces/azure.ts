import type { ArrivalSpec } from "../workloads/arrival.ts";
import type { TraceOptions, TraceRecord } from "./trace-arrivals.ts";
import { traceArrivals } from "./trace-arrivals.ts";
import { TraceError, shown } from "./trace-error.ts";
import { csvRows } from "./trace-row.ts";

/**
 * Reads the Azure LLM inference traces of 2023 and 2024: CSV with `TIMESTAMP` (UTC),
 * `ContextTokens` and `GeneratedTokens`. Source: Azure/AzurePublicDataset, CC-BY 4.0.
 */
export function azureArrivals(
  lines: Iterable<string>,
  options: TraceOptions,
): Generator<ArrivalSpec> {
  return traceArrivals(records(lines, options.tenantIndex ?? 0), options);
}

function* records(lines: Iterable<string>, tenantIndex: number): Generator<TraceRecord> {
  for (const row of csvRows(lines, ["TIMESTAMP", "ContextTokens", "GeneratedTokens"])) {
    yield {
      lineNumber: row.lineNumber,
      atMs: instantOf(row.text("TIMESTAMP"), row.lineNumber),
      tenantIndex,
      promptTokens: row.whole("ContextTokens"),
      outputTokens: row.whole("GeneratedTokens"),
    };
  }
}

/** 2023 writes no zone, 2024 writes `+00:00`; both have more digits than milliseconds. */
const TIMESTAMP = /^(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d(?:\.\d{1,9})?)(?:Z|\+00:00)?$/;

/** Milliseconds since 1970, with the fraction that a parsed `Date` would lose. */
function instantOf(text: string, lineNumber: number): number {
  const match = TIMESTAMP.exec(text);
  if (match === null) {
    throw new TraceError(lineNumber, "a UTC timestamp as TIMESTAMP", shown(text));
  }
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = match
    .slice(1)
    .map(Number);
  return (
    daysSince1970(year, month, day) * 86_400_000 + (hour * 60 + minute) * 60_000 + second * 1000
  );
}

/** Counts from March, so that the leap day is a year's last; 719,468 days lie between 0000-03-01 and 1970. */
function daysSince1970(year: number, month: number, day: number): number {
  const yearFromMarch = month > 2 ? year : year - 1;
  const monthFromMarch = (month + 9) % 12;
  const leapDays =
    Math.floor(yearFromMarch / 4) -
    Math.floor(yearFromMarch / 100) +
    Math.floor(yearFromMarch / 400);
  const dayOfYear = Math.floor((153 * monthFromMarch + 2) / 5) + day - 1;
  return yearFromMarch * 365 + leapDays + dayOfYear - 719_468;
}
