/** A place in a distributed trace: the trace, one span of it, and whether it is recorded. */
export interface TraceContext {
  /** 32 hex digits, not all of them 0. */
  readonly traceId: string;
  /** 16 hex digits, not all of them 0. */
  readonly spanId: string;
  readonly isSampled: boolean;
}

/** W3C Trace Context: version, trace, span, flags, and in versions to come more behind them. */
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
/** The specification keeps it free, so that it never means anything. */
const INVALID_VERSION = "ff";
const SAMPLED = 1;

/**
 * Reads a `traceparent` header; `undefined` for none and for one that is not as the specification has
 * it, which is to be ignored. Several headers arrive joined, and are none either.
 */
export function parseTraceparent(header: string | null | undefined): TraceContext | undefined {
  const [, version, traceId, spanId, flags = "", rest] = TRACEPARENT.exec(header ?? "") ?? [];
  if (traceId === undefined || spanId === undefined || version === INVALID_VERSION)
    return undefined;
  if (version === "00" && rest !== undefined) return undefined;
  if (isZero(traceId) || isZero(spanId)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & SAMPLED) !== 0 };
}

/** Writes a `traceparent` header of version 00. Flags that we do not know are not passed on. */
export function encodeTraceparent({ traceId, spanId, isSampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${isSampled ? "01" : "00"}`;
}

/** Begins a span of ours: in the trace of `parent`, or in a new one, which nobody asked to record. */
export function beginSpan(
  parent: TraceContext | undefined,
  ids: { readonly traceId: string; readonly spanId: string },
): TraceContext {
  return { isSampled: false, traceId: ids.traceId, ...parent, spanId: ids.spanId };
}

function isZero(digits: string): boolean {
  return /^0+$/.test(digits);
}
