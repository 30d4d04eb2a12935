import type { RequestId } from "../src/protocol/ids.ts";
import type { CallRecord } from "./call.ts";
import { startedAtMs } from "./call.ts";
import type { StopReason } from "./call-watch.ts";
import { logLine } from "./log.ts";

/** Room for a client's own id. It chose the text, so it gets no more, and nothing unprintable. */
const CLIENT_REQUEST_ID_LENGTH_MAX = 128;

/** Writes the one line that tells how a request for an operation went. */
export function logCall(call: {
  readonly requestId: RequestId;
  readonly clientHeaders: Headers;
  readonly record: CallRecord;
  readonly stopReason: StopReason | undefined;
}): void {
  const { record, stopReason } = call;
  const { stream, usage, attainment } = record;
  const firstTokenAtMs = stream?.firstTokenAtMs;
  logLine("info", "request", {
    requestId: call.requestId,
    clientRequestId: clientRequestIdOf(call.clientHeaders),
    traceId: record.trace.traceId,
    spanId: record.trace.spanId,
    tenantId: record.tenantId,
    operation: record.operation,
    modelId: record.modelId,
    outcome: stopReason === "client-gone" ? "client_gone" : (record.problem?.code ?? "completed"),
    rejectedFor: record.rejectedFor,
    degraded: record.degraded.length === 0 ? undefined : record.degraded.join(" "),
    limitedBy: record.limitedBy,
    attainment: attainment?.kind,
    missed: attainment?.kind === "missed" ? attainment.missed.join(" ") : undefined,
    missedFor: record.missCause,
    replicaId: record.replicaId,
    attempts: record.attempts,
    continuations: record.continuations,
    uploadMs: record.uploadMs,
    queuedMs: record.queuedMs,
    isInProfile: record.isInProfile,
    predictedTtftMs: record.predictedTtftMs,
    ttftMs: firstTokenAtMs === undefined ? undefined : firstTokenAtMs - startedAtMs(record),
    tbtMaxMs: stream?.tbtMaxMs,
    durationMs: Date.now() - record.arrivedAtMs,
    promptTokens: usage?.prompt_tokens,
    isReplayed: record.isReplayed || undefined,
    cachedTokens: usage?.prompt_tokens_details?.cached_tokens ?? undefined,
    outputTokens: usage?.completion_tokens ?? stream?.outputTokens,
  });
}

function clientRequestIdOf(headers: Headers): string | undefined {
  const id = headers.get("x-client-request-id") ?? headers.get("x-request-id") ?? undefined;
  return id?.slice(0, CLIENT_REQUEST_ID_LENGTH_MAX).replaceAll(/[^\x21-\x7e]/g, "?");
}
