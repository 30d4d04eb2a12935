import type { Outcome } from "../src/pool/offer.ts";
import { judgeAttainment } from "../src/slo/attainment.ts";
import type { RequestEnding } from "../src/slo/timeline.ts";
import type { Call } from "./call.ts";
import type { StopReason } from "./call-watch.ts";
import type { Reception } from "./reception.ts";

/**
 * Says to the pool how an attempt at a call ended, and with the call's last one whether its tenant got
 * what it was promised. `isLast`: no further attempt is made, whatever came of this one.
 */
export function outcomeOf(call: Call, reception: Reception, isLast: boolean): Outcome {
  const { record, watch } = call;
  const { dispatchedAtMs, stream, usage } = record;
  const firstTokenAtMs = stream?.firstTokenAtMs;
  const ending = endingOf(reception, watch.reason, isLast);
  return {
    kind: kindOf(reception, watch.reason),
    ...(usage !== undefined && {
      promptTokens: usage.prompt_tokens,
      cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
      // Vectors and scored prompts have none, which says nothing of how long answers are.
      ...(usage.completion_tokens > 0 && { outputTokens: usage.completion_tokens }),
    }),
    ...(firstTokenAtMs !== undefined &&
      dispatchedAtMs !== undefined && { firstTokenAfterMs: firstTokenAtMs - dispatchedAtMs }),
    ...(ending !== undefined && judged(call, ending)),
  };
}

/** Says how one copy of a call ended beside which another one may still answer. */
export function outcomeOfCopy({ watch }: Call, reception: Reception): Outcome {
  return { kind: kindOf(reception, watch.reason) };
}

/**
 * How the call ends with this attempt; `undefined` while another one may still answer, and for a
 * request that is itself at fault, which no replica owes anything.
 */
function endingOf(
  reception: Reception,
  stopReason: StopReason | undefined,
  isLast: boolean,
): RequestEnding | undefined {
  if (reception.kind === "complete") return "stop";
  if (stopReason === "client-gone") return "client-gone";
  if (stopReason !== undefined || reception.kind !== "unusable") return "failed";
  const { kind, isRetryable } = reception.fault;
  if (kind === "request") return undefined;
  return isLast || !isRetryable ? "failed" : undefined;
}

/** Whether the tenant got what it was promised, and the pace of the answer. */
function judged({ timeline, tenant, record }: Call, ending: RequestEnding): Partial<Outcome> {
  const { usage } = record;
  timeline.end(ending, Date.now(), {
    ...(usage !== undefined && {
      promptTokens: usage.prompt_tokens,
      outputTokens: usage.completion_tokens,
    }),
  });
  const { decodeMs } = timeline.timeline;
  const attainment = judgeAttainment(timeline.timeline, tenant.targets);
  record.attainment = attainment;
  return { attainment, ...(decodeMs !== undefined && { decodeMs }) };
}

function kindOf(reception: Reception, stopReason: StopReason | undefined): Outcome["kind"] {
  if (reception.kind === "complete") return "completed";
  if (stopReason === "client-gone") return "client-gone";
  const isRefused = reception.kind === "unusable" && reception.fault.kind !== "failure";
  return isRefused ? "upstream-refused" : "upstream-failed";
}
