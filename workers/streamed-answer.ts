import type { Problem } from "../src/protocol/errors.ts";
import { upstreamFailure } from "../src/protocol/upstream-problem.ts";
import type { AnswerMetrics } from "../src/protocol/answer-metrics.ts";
import { toAnswerMetrics } from "../src/protocol/answer-metrics.ts";
import { paceMs } from "../src/slo/deadlines.ts";
import { Pacer } from "../src/streaming/pacer.ts";
import type { AnswerTimes } from "../src/streaming/token-stream-options.ts";
import { TokenStream } from "../src/streaming/token-stream.ts";
import type { Call } from "./call.ts";
import { startedAtMs } from "./call.ts";
import type { CallWatch } from "./call-watch.ts";
import type { ClientStream } from "./client-stream.ts";
import { keepAnswer, RecordingSink } from "./kept-answers.ts";
import type { TextSink } from "./paced-client.ts";
import { PacedClient } from "./paced-client.ts";
import type { AttemptLine, Delivery, ReceiveAnswer } from "./reception.ts";
import type { RelayLimits } from "./relay.ts";
import { relay, sendRecorded } from "./relay.ts";

/** How the answer to a call reaches its client. */
export interface StreamedReception {
  readonly receive: ReceiveAnswer;
  /** Ends it with a problem, behind what there is of it. */
  readonly fail: (problem: Problem) => Promise<void>;
}

/** A tenant may set its own `stallMs`. */
const RELAY_LIMITS: RelayLimits = { stallMs: 10_000, unreadMs: 60_000, finishGraceMs: 2_000 };

/** Passes an answer on token by token, be it in parts of several replicas. */
export function receiveStreamed(call: Call, client: ClientStream): StreamedReception {
  const { watch, record, timeline } = call;
  const toClient = sinkOf(call, client);
  const recording =
    call.target.keys.answerKey === undefined ? undefined : new RecordingSink(toClient);
  const sink = recording ?? toClient;
  const { stallMs = RELAY_LIMITS.stallMs } = call.tenant.timeouts ?? {};
  const limits = { ...RELAY_LIMITS, stallMs };
  const receive: ReceiveAnswer = async (body, line) => {
    const { interrupted: continues, cachedTokensMax } = record;
    const stream = new TokenStream({
      modelId: call.target.model.modelId,
      choiceCount: call.choiceCount,
      ...(call.operation.tellsTier && { serviceTier: call.promise.serviceTier }),
      includeUsage: call.includeUsage,
      ...(cachedTokensMax !== undefined && { cachedTokensMax }),
      ...(call.includeMetrics && { metricsOf: (answer) => metricsOf(call, answer) }),
      ...(line.tellsTokens && { tokensKeptMax: call.target.model.contextTokens }),
      ...(continues !== undefined && { continues }),
    });
    // Until it has something new, an answer that goes on is what there is of it.
    if (!line.signal.aborted && continues === undefined) record.stream = stream;
    const onAnswer = (): void => {
      // A copy that is asked beside this one may have begun its answer since.
      record.stream = stream;
      line.onAnswer();
    };
    const parties = { stream, client: sink, watch, timeline, line: { ...line, onAnswer } };
    const lastText = await relay(body, parties, limits);
    if (stream.phase === "broken" && !stream.hasReleased) {
      const { problem = { code: "upstream_error" } } = stream;
      return { kind: "unusable", fault: { ...upstreamFailure(true), problem } };
    }
    const deliver = (text: string): Delivery => {
      record.usage = stream.usage;
      record.problem = stream.problem;
      const kind = stream.phase === "broken" ? "broken" : "complete";
      return {
        kind,
        deliver: async () => {
          const whole = stream.phase === "ended" ? recording?.wholeWith(text) : undefined;
          // Whoever has seen the end may ask for the same at once.
          if (whole !== undefined) keepAnswer(call, whole);
          await sink.end(text);
        },
      };
    };
    const { interrupted, problem = { code: "upstream_error" } } = stream;
    if (interrupted === undefined) return deliver(lastText);
    await sendRest(lastText, sink, { line, watch, limits });
    return {
      kind: "interrupted",
      answer: interrupted,
      fault: { ...upstreamFailure(true), problem },
      giveUp: () => deliver(stream.fail(problem)),
    };
  };
  return { receive, fail: (problem) => sink.fail(problem) };
}

/** What came together with the failure is the client's all the same. */
async function sendRest(
  text: string,
  sink: TextSink,
  { line, watch, limits }: { line: AttemptLine; watch: CallWatch; limits: RelayLimits },
): Promise<void> {
  if (text === "") return;
  await sendRecorded(text, { client: sink, watch, line }, limits);
  watch.expectBy(Date.now() + limits.stallMs);
}

/** A pace is kept where one was promised. */
function sinkOf({ isPaced, promise }: Call, client: ClientStream): TextSink {
  const gapMsMax = paceMs(promise.promised);
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
