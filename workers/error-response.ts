import type { ErrorCode, Problem } from "../src/protocol/errors.ts";
import { ERRORS, retryHeaders, toErrorEnvelope } from "../src/protocol/errors.ts";
import { GatewayError } from "./gateway-error.ts";
import { logLine } from "./log.ts";

const RETRY_AFTER_MS = 1_000;

/** Of the errors that were answered, for whoever counts them. */
const codes = new WeakMap<Response, ErrorCode>();

/** The code of an answer that `errorResponse` built. */
export function codeOf(response: Response): ErrorCode | undefined {
  return codes.get(response);
}

/** Builds the one error answer of the edge: status, envelope and the headers that go with it. */
export function errorResponse(
  problem: Problem,
  headers: Readonly<Record<string, string>> = {},
): Response {
  const { status } = ERRORS[problem.code];
  const response = Response.json(toErrorEnvelope(problem), {
    status,
    headers: {
      ...retryHeaders(problem),
      ...(status === 401 && { "www-authenticate": "Bearer" }),
      // The body may not have been read to its end, and then no other request can follow it.
      ...(status === 413 && { connection: "close" }),
      ...headers,
    },
  });
  codes.set(response, problem.code);
  return response;
}

/**
 * Says what a client may know of a thrown error. What nobody foresaw is logged here with all its
 * details and goes out without any.
 */
export function problemOf(error: unknown, requestId: string): Problem {
  if (error instanceof GatewayError) return error.problem;
  const details = error instanceof Error ? (error.stack ?? error.message) : String(error);
  logLine("error", "unexpected-error", { requestId, details });
  if (isObjectAway(error)) return { code: "server_is_overloaded", retryAfterMs: RETRY_AFTER_MS };
  return { code: "internal_error" };
}

/** The runtime marks what another try may heal: an object that moves, restarts or has no room. */
function isObjectAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const marks = ["retryable", "overloaded", "durableObjectReset"];
  return marks.some((mark) => Reflect.get(error, mark) === true);
}
