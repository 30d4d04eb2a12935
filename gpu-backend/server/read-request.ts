import type { Context } from "hono";
import type * as z from "zod";
import { parseJsonObject } from "../../src/protocol/json-object.ts";
import { parseRequest } from "../../src/protocol/parse-request.ts";
import type { RequestSchemas } from "../../src/protocol/unknown-parameters.ts";
import { monotonicNowMs } from "../clock.ts";
import type { AppContext, EngineEnvironment } from "./app-context.ts";
import { type EngineHeaders, readEngineHeaders } from "./engine-headers.ts";
import { ProblemError } from "./problem-error.ts";
import { readBody } from "./read-body.ts";

const BODY_BYTES_MAX = 8 * 1024 * 1024;

/** What came with a request beside its body. */
export interface Arrival {
  readonly requestId: string;
  readonly headers: EngineHeaders;
  /** On the clock of all threads. */
  readonly arrivedAtMs: number;
}

/**
 * Reads a request's headers and body and hands them to `submit`, which answers when the engine has
 * the request. Throws the problem of the first thing that is wrong with them.
 */
export async function readRequest<Schema extends z.ZodObject, Submitted>(
  context: AppContext,
  c: Context<EngineEnvironment>,
  schemas: RequestSchemas<Schema>,
  submit: (request: z.output<Schema>, arrival: Arrival) => Promise<Submitted>,
): Promise<Submitted> {
  const arrivedAtMs = monotonicNowMs();
  const headers = readEngineHeaders((name) => c.req.header(name));
  try {
    const text = await readBody(c.env.incoming, BODY_BYTES_MAX);
    const request = parseBody(context, schemas, text);
    return await submit(request, { requestId: c.get("requestId"), headers, arrivedAtMs });
  } finally {
    // Not sooner: from here on the load includes the request, or it is known to be refused. The
    // pool would else believe for a moment that what it sent is nowhere.
    if (headers.dispatch !== undefined) context.dispatches.note(headers.dispatch);
  }
}

function parseBody<Schema extends z.ZodObject>(
  context: AppContext,
  schemas: RequestSchemas<Schema>,
  text: string,
): z.output<Schema> {
  const body = parseJsonObject(text);
  if (body.kind === "invalid") throw new ProblemError(body.problem);
  const parsed = parseRequest(schemas, body.value);
  if (parsed.kind === "invalid") throw new ProblemError(parsed.problem);
  context.metrics.unknownParameters.inc(parsed.unknownParameters.length);
  return parsed.request;
}
