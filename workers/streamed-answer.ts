import { upstreamFailure } from "../src/protocol/upstream-problem.ts";
import type { AnswerMetrics } from "../src/protocol/answer-metrics.ts";
import { toAnswerMetrics } from "../src/protocol/answer-metrics.ts";
import { paceMs } from "../src/slo/deadlines.ts";
import { Pacer } from "../src/streaming/pacer.ts";
import type { AnswerTimes } from "../src/streaming/token-stream.ts";
import { TokenStream } from "../src/streaming/token-stream.ts";
import type { Call } from "./call.ts";
import { startedAtMs } from "./call.ts";
import type { ClientStream } from "./client-stream.ts";
import type { TextSink } from "./paced-client.ts";
import { PacedClient } from "./paced-client.ts";
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
    if (!line.signal.aborted) record.stream = stream;
    const onAnswer = (): void => {
      // A copy that is asked beside this one may have begun its answer since.
      record.stream = stream;
      line.onAnswer();
    };
    const { stallMs = RELAY_LIMITS.stallMs } = call.tenant.timeouts ?? {};
    const sink = sinkOf(call, client);
    const parties = { stream, client: sink, watch, timeline, line: { ...line, onAnswer } };
    const lastText = await relay(body, parties, { ...RELAY_LIMITS, stallMs });
    if (stream.phase === "broken" && !stream.hasReleased) {
      const { problem = { code: "upstream_error" } } = stream;
      return { kind: "unusable", fault: { ...upstreamFailure(true), problem } };
    }
    record.usage = stream.usage;
    record.problem = stream.problem;
    return {
      kind: stream.phase === "broken" ? "broken" : "complete",
      deliver: () => sink.end(lastText),
    };
  };
}

/** A pace is kept where one was promised. */
function sinkOf({ isPaced, tenant }: Call, client: ClientStream): TextSink {
  const gapMsMax = paceMs(tenant.targets);
  return isPaced && gapMsMax < Infinity ? new PacedClient(client, new Pacer({ gapMsMax })) : client;
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
