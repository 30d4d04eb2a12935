import type { ServerResponse } from "node:http";
import type { Context, Handler } from "hono";
import type * as z from "zod";
import { CACHE_HIT, CLIENT_HEADERS, ENGINE_HEADERS } from "../../src/protocol/headers.ts";
import type { RequestSchemas } from "../../src/protocol/unknown-parameters.ts";
import { isBroken } from "./answer.ts";
import { answerStream } from "./answer-stream.ts";
import { readTotals } from "./answer-totals.ts";
import type { AppContext, EngineEnvironment } from "./app-context.ts";
import type { Generation } from "./generation.ts";
import { problemOfBroken } from "./problem-of-broken.ts";
import { ProblemError } from "./problem-error.ts";
import { type Arrival, readRequest } from "./read-request.ts";
import { answerPrefill, submitPrefill } from "./prefill-route.ts";
import { readWhole } from "./read-whole.ts";
import { requireContinuable } from "./require-continuable.ts";
import { type RunningGeneration, submitGeneration } from "./submit-generation.ts";
import { TokenTelling } from "./token-telling.ts";

/**
 * Until the first token a failure is still an honest status; a client that gets no head for much
 * longer takes the engine for dead.
 */
const HEAD_HOLD_MS = 2000;

const STREAM_HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
};

/** Makes a valid request into one for the engine, or throws the problem of why it cannot be. */
export type TakeIn<Request> = (
  context: AppContext,
  request: Request,
  arrival: Arrival,
) => Promise<Generation>;

/** Answers requests for text, streamed or whole; a client that leaves ends its generation. */
export function generateText<Schema extends z.ZodObject>(
  context: AppContext,
  schemas: RequestSchemas<Schema>,
  takeIn: TakeIn<z.output<Schema>>,
): Handler<EngineEnvironment> {
  return async (c) => {
    const taken = await readRequest(context, c, schemas, async (request, arrival) => {
      const generation = await takeIn(context, request, arrival);
      requireContinuable(generation);
      const { tellsTokens: isTold = false, prefillOnly = false } = arrival.headers;
      if (prefillOnly) {
        return { kind: "prefill", running: submitPrefill(context, generation, arrival) } as const;
      }
      const running = submitGeneration(context, generation, arrival);
      return { kind: "generation", running, isTold } as const;
    });
    whenClosed(c.env.outgoing, () => taken.running.cancel());
    if (taken.kind === "prefill") return answerPrefill(context, c, taken.running);
    const { running, isTold } = taken;
    return running.generation.parameters.stream
      ? streamAnswer(context, c, running, tellingOf(running, isTold))
      : sendAnswer(context, c, running);
  };
}

async function streamAnswer(
  context: AppContext,
  c: Context<EngineEnvironment>,
  running: RunningGeneration,
  telling: ReturnType<typeof tellingOf>,
): Promise<Response> {
  const { answers, generation } = running;
  const firstPart = await answers.next(HEAD_HOLD_MS);
  if (firstPart !== undefined && isBroken(firstPart.part)) {
    throw new ProblemError(problemOfBroken(context, generation, firstPart.part));
  }
  const includesUsage = generation.parameters.stream_options?.include_usage === true;
  const stream = answerStream({
    answers,
    firstPart,
    format: generation.format,
    telling: telling?.chunks,
    totals: () => (includesUsage ? totalsOf(context, c, running) : undefined),
    problemOf: (part) => {
      const problem = problemOfBroken(context, generation, part);
      context.metrics.errors.inc({ code: problem.code });
      return problem;
    },
  });
  const headers = { ...STREAM_HEADERS, ...telling?.headers, ...timingHeader(running) };
  return c.body(stream, 200, headers);
}

/** How a stream says which tokens it is from, and that it does; undefined where it does not. */
function tellingOf({ generation, choices }: RunningGeneration, isWanted: boolean) {
  const [choice] = choices;
  if (!isWanted || !generation.mayBeContinued || choice === undefined) return undefined;
  const { sluice_continuation: continuation } = generation.parameters;
  const { promptTokens, outputTokensMax, sampling } = choice.request;
  const start = () => ({
    seed: sampling.seed,
    system_fingerprint: generation.identity.systemFingerprint,
    output_tokens_max: outputTokensMax,
    prompt_tokens: promptTokens.length,
    cached_tokens: choice.answer.cachedTokens,
  });
  return {
    chunks: new TokenTelling(continuation === undefined ? start : undefined),
    headers: { [ENGINE_HEADERS.tellTokens]: String(continuation?.token_ids.length ?? 0) },
  };
}

async function sendAnswer(
  context: AppContext,
  c: Context<EngineEnvironment>,
  running: RunningGeneration,
): Promise<Response> {
  const { answers, choices, generation } = running;
  const whole = await readWhole(answers, choices.length);
  if (whole.kind !== "whole") {
    throw new ProblemError(problemOfBroken(context, generation, whole));
  }
  const totals = totalsOf(context, c, running);
  return c.json(generation.format.bodyOf(whole.choices, totals), 200, timingHeader(running));
}

function totalsOf(context: AppContext, c: Context<EngineEnvironment>, running: RunningGeneration) {
  return readTotals(running, {
    prefixCache: context.prefixCache,
    includesMetrics: c.req.header(CLIENT_HEADERS.includeMetrics) === "1",
  });
}

/** What is known of the first choice when the head leaves: its time, and whether its prompt was found cached. */
function timingHeader({ choices: [choice] }: RunningGeneration): Record<string, string> {
  const cache = (choice?.answer.cachedTokens ?? 0) > 0 ? CACHE_HIT : "";
  const entries = [choice?.timing.serverTiming() ?? "", cache].filter((text) => text !== "");
  return entries.length === 0 ? {} : { [CLIENT_HEADERS.serverTiming]: entries.join(", ") };
}

function whenClosed(outgoing: ServerResponse, act: () => void): void {
  if (outgoing.destroyed) act();
  else outgoing.once("close", act);
}
