import type { Outcome, RetryReason } from "../src/pool/offer.ts";
import { judgeAttainment } from "../src/slo/attainment.ts";
import { missCause } from "../src/slo/miss-cause.ts";
import type { RequestEnding } from "../src/slo/timeline.ts";
import type { Call, CallRecord } from "./call.ts";
import type { StopReason } from "./call-watch.ts";
import type { Interruption, Reception } from "./reception.ts";

/**
 * Says to the pool how an attempt at a call ended, and with the call's last one whether its tenant got
 * what it was promised. `isLast`: no further attempt is made, whatever came of this one.
 */
export function outcomeOf(call: Call, reception: Reception, isLast: boolean): Outcome {
  const ending = endingOf(reception, call.watch.reason, isLast);
  return {
    kind: kindOf(reception, call.watch.reason),
    ...(isTimedOut(reception, call.watch.reason) && { isTimedOut: true }),
    ...countsOf(call.record),
    ...firstTokenOf(call.record),
    ...(ending !== undefined && judged(call, ending)),
  };
}

/** Says how a replica ended with whose answer another one is to go on. */
export function outcomeOfPart({ record }: Call, { answer }: Interruption): Outcome {
  const { prompt_tokens, cached_tokens, token_ids } = answer.continuation;
  const usage = {
    prompt_tokens,
    completion_tokens: token_ids.length,
    prompt_tokens_details: { cached_tokens },
  };
  return {
    kind: "upstream-failed",
    isInterrupted: true,
    ...countsOf({ ...record, usage }),
    ...firstTokenOf(record),
  };
}

/** What the replica asked last has made: the prompt was counted where its answer began. */
function countsOf({ usage, interrupted }: Pick<CallRecord, "usage" | "interrupted">) {
  if (usage === undefined) return {};
  const emittedTokens = interrupted?.continuation.token_ids.length ?? 0;
  const outputTokens = usage.completion_tokens - emittedTokens;
  const cachedTokens = usage.prompt_tokens_details?.cached_tokens ?? undefined;
  const reasoningTokens = usage.completion_tokens_details?.reasoning_tokens ?? 0;
  return {
    ...(interrupted === undefined && {
      promptTokens: usage.prompt_tokens,
      // Who does not say has not said that nothing was found.
      ...(cachedTokens !== undefined && { cachedTokens }),
    }),
    // Vectors and scored prompts have none, which says nothing of how long answers are.
    ...(outputTokens > 0 && { outputTokens }),
    ...(reasoningTokens > 0 && { reasoningTokens }),
  };
}

/** When the replica asked last had its first token, if it had one. */
function firstTokenOf({ stream, interrupted, ownDispatchedAtMs }: CallRecord) {
  const isItsOwn = stream?.continues === interrupted;
  const firstTokenAtMs = isItsOwn ? stream?.ownFirstTokenAtMs : undefined;
  if (firstTokenAtMs === undefined || ownDispatchedAtMs === undefined) return {};
  return { firstTokenAfterMs: firstTokenAtMs - ownDispatchedAtMs };
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

/** Whether the tenant got what it was promised, and the replica's pace. */
function judged({ timeline, promise, record }: Call, ending: RequestEnding): Partial<Outcome> {
  const { usage, stream } = record;
  timeline.end(ending, Date.now(), {
    ...(usage !== undefined && {
      promptTokens: usage.prompt_tokens,
      outputTokens: usage.completion_tokens,
    }),
  });
  // The pace that is judged here is the replica's: the answer may have come from two.
  const decodeMs = stream?.ownDecodeMs;
  const { promised } = promise;
  const attainment = judgeAttainment(timeline.timeline, promised);
  record.attainment = attainment;
  record.missCause =
    attainment.kind === "missed"
      ? missCause(timeline.timeline, attainment.missed, promised)
      : undefined;
  return { attainment, ...(decodeMs !== undefined && { decodeMs }) };
}

/** What stopped it was its own time, and so its replica has failed it. */
function isTimedOut(reception: Reception, stopReason: StopReason | undefined): boolean {
  return stopReason === "timeout" && kindOf(reception, stopReason) === "upstream-failed";
}

/** As what a further dispatch of the call is told of. */
export function retryReasonOf({ kind, isInterrupted }: Outcome): RetryReason {
  if (isInterrupted === true) return "interrupted";
  if (kind === "displaced") return "displaced";
  return kind === "upstream-refused" ? "refused" : "failed";
}

function kindOf(reception: Reception, stopReason: StopReason | undefined): Outcome["kind"] {
  if (reception.kind === "complete") return "completed";
  if (stopReason === "client-gone") return "client-gone";
  const isRefused = reception.kind === "unusable" && reception.fault.kind !== "failure";
  return isRefused ? "upstream-refused" : "upstream-failed";
}
