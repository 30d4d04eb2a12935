import type { ArrivalSpec } from "../workloads/arrival.ts";
import { azureArrivals } from "./azure.ts";
import { bailianArrivals } from "./bailian.ts";
import { linesOf } from "./lines.ts";
import { mooncakeArrivals } from "./mooncake.ts";
import type { TraceOptions } from "./trace-arrivals.ts";
import { TraceError, shown } from "./trace-error.ts";
import { vtcArrivals } from "./vtc.ts";

/** The formats of traces that a file may have, and what its first line says where it has that one. */
const FORMATS = [
  { isBegunBy: (line: string) => line.includes('"chat_id"'), read: bailianArrivals },
  { isBegunBy: (line: string) => line.includes('"input_length"'), read: mooncakeArrivals },
  { isBegunBy: (line: string) => line.includes("ContextTokens"), read: azureArrivals },
  { isBegunBy: (line: string) => line.includes("arrival_s"), read: vtcArrivals },
] as const;

/**
 * Reads a recorded trace of any format that is known here, plain or gzipped, which its first line tells.
 * Throws a `TraceError` on any other file.
 */
export function openTrace(path: string, options: TraceOptions): Generator<ArrivalSpec> {
  const first = linesOf(path).next();
  const line = first.done === true ? "" : first.value;
  const format = FORMATS.find(({ isBegunBy }) => isBegunBy(line));
  if (format === undefined) {
    throw new TraceError(1, "a trace of Azure, Mooncake, Bailian or VTC", shown(line));
  }
  return format.read(linesOf(path), options);
}
