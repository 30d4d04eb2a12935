import type { Context, Handler } from "hono";
import { POOL_LIMITS } from "../../src/pool/pool-limits.ts";
import type { Problem } from "../../src/protocol/errors.ts";
import { CLIENT_HEADERS } from "../../src/protocol/headers.ts";
import type { Operation } from "../../src/protocol/operation.ts";
import type { Call, CallRecord, CheckedRequest } from "../call.ts";
import { newCallRecord, newTimeline, startedAtMs } from "../call.ts";
import type { StopReason } from "../call-watch.ts";
import { CallWatch } from "../call-watch.ts";
import { checkRequest } from "../check-request.ts";
import { ClientStream, STREAM_HEADERS } from "../client-stream.ts";
import type { EdgeContext } from "../edge-context.ts";
import type { Env } from "../env.ts";
import { problemOf } from "../error-response.ts";
import { GatewayError } from "../gateway-error.ts";
import { keptAnswerOf } from "../kept-answers.ts";
import type { ReceiveAnswer } from "../reception.ts";
import { logCall } from "../request-log.ts";
import { serveCall } from "../serve-call.ts";
import { admitStrangersLine } from "../key-guard.ts";
import { serverTimingOf } from "../server-timing.ts";
import { ANSWER_MS_MAX } from "../../src/slo/answer-span.ts";
import type { Settings } from "../settings.ts";
import { settingsOf } from "../settings.ts";
import { receiveStreamed } from "../streamed-answer.ts";
import { traceOf } from "../trace.ts";
import { receiveWhole } from "../whole-answer.ts";

/** Answers requests for one operation, streamed or whole. Each of them leaves one line in the log. */
export function performOperation(operation: Operation): Handler<EdgeContext> {
  return async (c) => {
    const { requestId, arrivedAtMs } = c.var;
    const record = newCallRecord(operation, traceOf(c.req.raw.headers), arrivedAtMs);
    c.set("record", record);
    let checked: CheckedRequest;
    try {
      checked = await checkRequest(c.req.raw, { operation, requestId, record }, edgeOf(c));
    } catch (error) {
      record.problem = problemOf(error, requestId);
      if (isLogged(record.problem, record)) log(c, record);
      throw new GatewayError(record.problem);
    }
    const kept = keptAnswerOf(checked);
    if (kept !== undefined) return replay(c, checked, record, kept);
    return checked.isStreamed
      ? answerStreamed(c, checked, record)
      : answerWhole(c, checked, record);
  };
}

/** Gives an answer again, in the form in which it was given: no replica, permit or token is taken for it. */
function replay(
  c: Context<EdgeContext>,
  { isStreamed }: CheckedRequest,
  record: CallRecord,
  text: string,
): Response {
  record.isReplayed = true;
  log(c, record);
  const type = isStreamed ? STREAM_HEADERS : JSON_HEADERS;
  return new Response(text, { headers: { ...type, [CLIENT_HEADERS.cache]: "hit" } });
}

const JSON_HEADERS = { "content-type": "application/json" } as const;

function answerStreamed(
  c: Context<EdgeContext>,
  checked: CheckedRequest,
  record: CallRecord,
): Promise<Response> {
  // A client that does not read holds its replica up, so then it is the client who is late.
  const watch: CallWatch = new CallWatch(endsAtMs(checked, record), () =>
    client.isBlocked ? "client-gone" : "timeout",
  );
  const client = new ClientStream({
    headers: () => answerHeaders(checked, record),
    onClientGone: () => watch.stop("client-gone"),
  });
  watch.expectBy(startedAtMs(record) + POOL_LIMITS.firstTokenMsMax);
  watch.signal.addEventListener("abort", () => {
    if (watch.reason === "client-gone") void client.abort();
  });
  const call = { ...checked, watch, record, timeline: newTimeline(checked, record) };
  const { receive, fail } = receiveStreamed(call, client);
  run(c, call, receive, fail);
  return client.response;
}

function answerWhole(
  c: Context<EdgeContext>,
  checked: CheckedRequest,
  record: CallRecord,
): Promise<Response> {
  const watch = new CallWatch(endsAtMs(checked, record));
  const call = { ...checked, watch, record, timeline: newTimeline(checked, record) };
  return new Promise((resolve, reject) => {
    const answer = (json: string): void => {
      const headers = {
        ...JSON_HEADERS,
        ...answerHeaders(checked, record),
      };
      resolve(new Response(json, { headers }));
    };
    run(c, call, receiveWhole(call, answer), async (problem) => {
      reject(new GatewayError(problem));
    });
  });
}

/** What the head says of how the answer came about; a stream's may go out before all of that is known. */
function answerHeaders({ target }: CheckedRequest, record: CallRecord): Record<string, string> {
  return {
    // It was not there, where it might have been.
    ...(target.keys.answerKey !== undefined && { [CLIENT_HEADERS.cache]: "miss" }),
    [CLIENT_HEADERS.serverTiming]: serverTimingOf(record),
    ...(record.degraded.length > 0 && { [CLIENT_HEADERS.degraded]: record.degraded.join(", ") }),
  };
}

/** By then a call is over, however well it goes. */
function endsAtMs({ tenant }: CheckedRequest, record: CallRecord): number {
  return startedAtMs(record) + (tenant.timeouts?.totalMs ?? ANSWER_MS_MAX);
}

/** Serves a call in a life of its own, so that it ends in order although nobody listens any more. */
function run(
  c: Context<EdgeContext>,
  call: Call,
  receive: ReceiveAnswer,
  refuse: (problem: Problem) => Promise<void>,
): void {
  const { watch, record, requestId } = call;
  const serve = async (): Promise<void> => {
    try {
      await serveCall(call, receive, edgeOf(c));
    } catch (error) {
      record.problem = problemOf(error, requestId);
      await refuse(record.problem);
    } finally {
      watch.dispose();
      log(c, record, watch.reason);
    }
  };
  watch.follow(c.req.raw.signal);
  c.executionCtx.waitUntil(serve());
}

/** Whoever is not listened to shall not fill the log either: it is in the metrics. */
function isLogged({ code }: Problem, { tenantId, arrivedAtMs }: CallRecord): boolean {
  if (tenantId !== undefined) return true;
  const isTurnedAway = code === "rate_limit_exceeded" || code === "server_is_overloaded";
  return !isTurnedAway && admitStrangersLine(arrivedAtMs);
}

function edgeOf({ env }: Context<EdgeContext>): { env: Env; settings: Settings } {
  return { env, settings: settingsOf(env) };
}

function log(c: Context<EdgeContext>, record: CallRecord, stopReason?: StopReason): void {
  logCall({ requestId: c.var.requestId, clientHeaders: c.req.raw.headers, record, stopReason });
}
