import { upstreamFailure } from "../src/protocol/upstream-problem.ts";
import type { AnswerMetrics } from "../src/protocol/answer-metrics.ts";
import { toAnswerMetrics } from "../src/protocol/answer-metrics.ts";
import type { AnswerTimes } from "../src/streaming/token-stream.ts";
import { TokenStream } from "../src/streaming/token-stream.ts";
import type { Call } from "./call.ts";
import { startedAtMs } from "./call.ts";
import type { ClientStream } from "./client-stream.ts";
import type { ReceiveAnswer } from "./reception.ts";
import type { RelayLimits } from "./relay.ts";
import { relay } from "./relay.ts";

/** A tenant may set its own `stallMs`. */
const RELAY_LIMITS: RelayLimits = { stallMs: 10_000, unreadMs: 60_000, finishGraceMs: 2_000 };

/** Passes an answer on token by token. */
export function receiveStreamed(call: Call, client: ClientStream): ReceiveAnswer {
  const { watch, record, timeline } = call;
  return async (body, line) => {
    const stream = new TokenStream({
      modelId: call.model.modelId,
      choiceCount: call.choiceCount,
      includeUsage: call.includeUsage,
      ...(call.includeMetrics && { metricsOf: (answer) => metricsOf(call, answer) }),
    });
    record.stream = stream;
    const parties = { stream, client, watch, timeline, line };
    const { stallMs = RELAY_LIMITS.stallMs } = call.tenant.timeouts ?? {};
    const lastText = await relay(body, parties, { ...RELAY_LIMITS, stallMs });
    record.usage = stream.usage;
    if (stream.phase === "broken" && !stream.hasReleased) {
      const { problem = { code: "upstream_error" } } = stream;
      return { kind: "unusable", fault: { ...upstreamFailure(true), problem } };
    }
    record.problem = stream.problem;
    return {
      kind: stream.phase === "broken" ? "broken" : "complete",
      deliver: () => client.end(lastText),
    };
  };
}

/** Choices that stream side by side have no pace of their own that could be told. */
function metricsOf(
  { record, choiceCount }: Call,
  { firstTokenAtMs, lastTokenAtMs, outputTokens }: AnswerTimes,
): AnswerMetrics | undefined {
  const { dispatchedAtMs, predictedTtftMs } = record;
  if (dispatchedAtMs === undefined || choiceCount > 1) return undefined;
  return toAnswerMetrics({
    queueMs: record.queuedMs,
    prefillMs: firstTokenAtMs - dispatchedAtMs,
    ttftMs: firstTokenAtMs - startedAtMs(record),
    ...(predictedTtftMs !== undefined && { predictedTtftMs }),
    generationMs: lastTokenAtMs - firstTokenAtMs,
    outputTokens,
  });
}
