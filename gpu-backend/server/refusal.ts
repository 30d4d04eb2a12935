import { unreachable } from "../../src/base/assert.ts";
import type { Problem } from "../../src/protocol/errors.ts";
import type { RefusalReason } from "../engine/generate-request.ts";
import { contextLengthExceeded } from "../engine/tokenizer/prompt-limit.ts";
import type { EngineSnapshot } from "../thread-messages.ts";

/** Soon, and on another replica: this one has measured nothing yet, or is about to stop. */
const RETRY_AFTER_MS = 1000;

/** What a refusal says about the request that was refused. */
export interface RefusedPrompt {
  readonly promptTokens: number;
  readonly contextTokens: number;
  /** The parameter that it came in. */
  readonly param: string;
  /** The parameter that its constraint came in, if it has one. */
  readonly constraintParam: string;
}

/** The engine's word for it. */
export interface Refusal {
  readonly reason: RefusalReason;
  readonly message?: string;
}

/** Says in the API's words why the engine did not take a request. */
export function problemOfRefusal(
  { reason, message }: Refusal,
  { constraintParam, ...prompt }: RefusedPrompt,
  load: EngineSnapshot | undefined,
): Problem {
  switch (reason) {
    case "queue-full":
      return overloaded("The engine's queue is full", queueMs(load));
    case "deadline-passed":
      return overloaded("The first token would come after its deadline", queueMs(load));
    case "draining":
      return overloaded("The engine is shutting down", RETRY_AFTER_MS);
    case "prompt-too-long":
    case "kv-too-small":
      return contextLengthExceeded({ ...prompt, isLowerBound: false });
    case "constraint-refused":
      return {
        code: "unsupported_value",
        param: constraintParam,
        ...(message !== undefined && { message }),
      };
  }
  return unreachable(reason);
}

function overloaded(message: string, retryAfterMs: number): Problem {
  return { code: "server_is_overloaded", message, retryAfterMs };
}

/** How long the prompts that wait here take to compute, as measured so far. */
function queueMs(load: EngineSnapshot | undefined): number {
  if (load === undefined) return RETRY_AFTER_MS;
  return (load.queuedUncachedTokens / load.prefillTokensPerSecond) * 1000 + load.stepMs;
}
