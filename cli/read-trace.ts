import { openTrace } from "../simulator/traces/open-trace.ts";
import type { TraceOptions } from "../simulator/traces/trace-arrivals.ts";
import type { ArrivalSpec } from "../simulator/workloads/arrival.ts";
import { CommandFailure, messageOf } from "./command.ts";

/** Reads the requests of a recorded trace one by one. Throws a `CommandFailure` that names the file. */
export function* readTrace(file: string, options: TraceOptions): Generator<ArrivalSpec> {
  try {
    yield* openTrace(file, options);
  } catch (error) {
    throw new CommandFailure(`${file}: ${messageOf(error)}`);
  }
}
