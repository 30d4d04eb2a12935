import type { TraceContext } from "../src/protocol/trace-context.ts";
import { beginSpan, parseTraceparent } from "../src/protocol/trace-context.ts";

const SPAN_DIGITS = 16;

/** Begins the gateway's span of a request: in its client's trace, if it brings a valid one, or in a new one. */
export function traceOf(headers: Headers): TraceContext {
  // The digits of a random UUID that say its kind are never 0, so no id is all zeros.
  return beginSpan(parseTraceparent(headers.get("traceparent")), {
    traceId: randomHex(),
    spanId: randomHex().slice(-SPAN_DIGITS),
  });
}

function randomHex(): string {
  return crypto.randomUUID().replaceAll("-", "");
}
