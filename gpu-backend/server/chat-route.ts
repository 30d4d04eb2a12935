import type { ServerResponse } from "node:http";
import type { Context, Handler } from "hono";
import { unreachable } from "../../src/base/assert.ts";
import {
  type AnswerIdentity,
  chatChunks,
  chatCompletion,
  toUsage,
  type Usage,
} from "../../src/protocol/chat-response.ts";
import type { Problem } from "../../src/protocol/errors.ts";
import { monotonicNowMs } from "../clock.ts";
import type { Answer, AnswerPart, BrokenPart, FinishedPart } from "./answer.ts";
import { answerStream } from "./answer-stream.ts";
import type { AppContext, EngineEnvironment } from "./app-context.ts";
import { type Intake, takeIn } from "./chat-intake.ts";
import { readEngineHeaders } from "./engine-headers.ts";
import { ProblemError } from "./problem-error.ts";
import { readBody } from "./read-body.ts";
import { problemOfRefusal } from "./refusal.ts";
import { startAnswer } from "./start-answer.ts";

const BODY_BYTES_MAX = 8 * 1024 * 1024;
/**
 * Until the first token a failure is still an honest status; a client that gets no head for much
 * longer takes the engine for dead.
 */
const HEAD_HOLD_MS = 2000;
/** How long one wait lasts where nobody needs to hear that nothing came. */
const PATIENCE_MS = 60_000;
const RETRY_AFTER_FAILURE_MS = 1000;

const STREAM_HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
};

/** Answers a chat request, streamed or whole; a client that leaves ends its generation. */
export function completeChat(context: AppContext): Handler<EngineEnvironment> {
  return async (c) => {
    const { intake, answer } = await start(context, c);
    whenClosed(c.env.outgoing, () => context.engine.cancel(intake.request.id));
    return intake.chat.stream
      ? streamAnswer(context, c, intake, answer)
      : sendAnswer(context, c, intake, answer);
  };
}

async function start(
  context: AppContext,
  c: Context<EngineEnvironment>,
): Promise<{ intake: Intake; answer: Answer }> {
  const arrivedAtMs = monotonicNowMs();
  const headers = readEngineHeaders((name) => c.req.header(name));
  try {
    const body = await readBody(c.env.incoming, BODY_BYTES_MAX);
    const intake = takeIn(context, { body, headers, arrivedAtMs });
    const arrival = { requestId: c.get("requestId"), arrivedAtMs };
    return { intake, answer: startAnswer(context, intake, arrival) };
  } finally {
    // Not sooner: from here on the load includes the request, or it is known to be refused. The
    // pool would else believe for a moment that what it sent is nowhere.
    if (headers.dispatch !== undefined) context.dispatches.note(headers.dispatch);
  }
}

async function streamAnswer(
  context: AppContext,
  c: Context<EngineEnvironment>,
  intake: Intake,
  answer: Answer,
): Promise<Response> {
  const firstPart = await answer.next(HEAD_HOLD_MS);
  if (firstPart !== undefined && isBroken(firstPart)) {
    throw new ProblemError(problemOf(context, intake, firstPart));
  }
  const includesUsage = intake.chat.stream_options?.include_usage === true;
  const stream = answerStream({
    answer,
    firstPart,
    chunks: chatChunks(identityOf(intake), { includesUsage }),
    usageOf: (part) => (includesUsage ? usageOf(context, intake, part) : undefined),
    problemOf: (part) => {
      const problem = problemOf(context, intake, part);
      context.metrics.errors.inc({ code: problem.code });
      return problem;
    },
  });
  return c.body(stream, 200, STREAM_HEADERS);
}

async function sendAnswer(
  context: AppContext,
  c: Context<EngineEnvironment>,
  intake: Intake,
  answer: Answer,
): Promise<Response> {
  let content = "";
  for (;;) {
    const part = await answer.next(PATIENCE_MS);
    if (part === undefined) continue;
    if (part.kind === "text") {
      content += part.text;
    } else if (part.kind === "finished") {
      const usage = usageOf(context, intake, part);
      const body = chatCompletion(identityOf(intake), {
        content,
        finishReason: part.reason,
        usage,
      });
      return c.json(body);
    } else {
      throw new ProblemError(problemOf(context, intake, part));
    }
  }
}

function isBroken(part: AnswerPart): part is BrokenPart {
  return part.kind !== "text" && part.kind !== "finished";
}

function whenClosed(outgoing: ServerResponse, act: () => void): void {
  if (outgoing.destroyed) act();
  else outgoing.once("close", act);
}

function identityOf({ model, request }: Intake): AnswerIdentity {
  return {
    id: request.id,
    createdAtSeconds: Math.floor(Date.now() / 1000),
    model: model.name,
    systemFingerprint: model.systemFingerprint,
  };
}

function usageOf(context: AppContext, { model }: Intake, { counts }: FinishedPart): Usage {
  const { promptTokens, cachedTokens } = counts;
  const fullBlockTokens = promptTokens - (promptTokens % model.blockTokens);
  // Only full blocks are kept, and a hit is already there.
  const cacheWriteTokens = context.prefixCache ? fullBlockTokens - cachedTokens : 0;
  return toUsage({ ...counts, cacheWriteTokens });
}

function problemOf(context: AppContext, { model, request }: Intake, part: BrokenPart): Problem {
  const { engine } = context;
  switch (part.kind) {
    case "refused": {
      const { contextTokens } = model;
      const prompt = { promptTokens: request.promptTokens.length, contextTokens };
      return problemOfRefusal(part.reason, prompt, engine.load);
    }
    case "cancelled":
      return { code: "upstream_error", message: "The request was cancelled" };
    case "failed":
      // A request that broke the engine's step breaks it elsewhere as well: only an engine that is
      // gone is a reason to try another one.
      return engine.condition === "serving" || engine.condition === "draining"
        ? { code: "internal_error" }
        : { code: "upstream_error", retryAfterMs: RETRY_AFTER_FAILURE_MS };
  }
  return unreachable(part);
}
