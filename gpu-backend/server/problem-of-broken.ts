import { unreachable } from "../../src/base/assert.ts";
import type { Problem } from "../../src/protocol/errors.ts";
import type { GenerateRequest } from "../engine/generate-request.ts";
import type { BrokenPart } from "./answer.ts";
import type { AppContext, ServedModel } from "./app-context.ts";
import { problemOfRefusal } from "./refusal.ts";

const RETRY_AFTER_FAILURE_MS = 1000;
const STOPPED = "The model server was stopped before the answer was complete";

/** What was asked of the engine. */
export interface BrokenRequest {
  readonly model: ServedModel;
  readonly requests: readonly GenerateRequest[];
  /** The parameter that the prompt came in. */
  readonly promptParam: string;
}

/** Names for the metrics why an answer did not come to its end. */
export function errorTypeOf(context: AppContext, request: BrokenRequest, part: BrokenPart): string {
  // Whoever left gets no error, and is none.
  return part.kind === "cancelled" ? "cancelled" : problemOfBroken(context, request, part).code;
}

/** Says in the API's words why an answer did not come to its end. */
export function problemOfBroken(
  context: AppContext,
  { model, requests, promptParam }: BrokenRequest,
  part: BrokenPart,
): Problem {
  const { engine } = context;
  switch (part.kind) {
    case "refused": {
      const promptTokens = Math.max(...requests.map((request) => request.promptTokens.length));
      const prompt = { promptTokens, contextTokens: model.contextTokens, param: promptParam };
      const isOfTools = requests[0]?.constraint?.kind === "tool-calls";
      const constraintParam = isOfTools ? "tools" : "response_format";
      return problemOfRefusal(part, { ...prompt, constraintParam }, engine.load);
    }
    case "cancelled":
      return { code: "upstream_error", message: "The request was cancelled" };
    case "diverged":
      return { code: "continuation_mismatch" };
    case "failed":
      // A request that broke the engine's step breaks it elsewhere as well: only an engine that is
      // gone is a reason to try another one.
      return engine.condition === "serving" || engine.condition === "draining"
        ? { code: "internal_error" }
        : {
            code: "upstream_error",
            retryAfterMs: RETRY_AFTER_FAILURE_MS,
            ...(engine.condition === "closed" && { message: STOPPED }),
          };
  }
  return unreachable(part);
}
