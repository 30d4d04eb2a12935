import type { Rejection } from "../src/pool/offer.ts";
import type { Problem } from "../src/protocol/errors.ts";
import type { CheckedRequest } from "./call.ts";

/** Why a tenant has to wait. Some clients read the delay only from the end of the message. */
export function concurrencyProblem(concurrencyMax: number, retryAfterMs: number): Problem {
  const seconds = Math.ceil(retryAfterMs / 1000);
  return {
    code: "rate_limit_exceeded",
    message:
      `The tenant's limit of ${concurrencyMax} requests at once is reached. ` +
      `Please try again in ${seconds}s.`,
    retryAfterMs,
  };
}

/**
 * A prompt that cannot fit its model. Some clients know it only by the words "maximum context
 * length". `length` completes "the prompt has".
 */
export function contextLengthProblem(contextTokens: number, length: string): Problem {
  return {
    code: "context_length_exceeded",
    message: `This model's maximum context length is ${contextTokens} tokens, the prompt has ${length}`,
    param: "messages",
  };
}

/**
 * A pool's refusal in words for the client: what was predicted, not which replicas there are. What
 * no replica could answer in time is the request's fault, and so nothing to try again.
 */
export function rejectionProblem(
  rejection: Rejection,
  request: Pick<CheckedRequest, "model" | "firstTokenTargetMs">,
): Problem {
  const { code, reason, retryAfterMs } = rejection;
  if (reason === "unattainable") return unattainableProblem(rejection, request);
  const predictedMs = predictedMsOf(rejection);
  const predicted = predictedMs === undefined ? "" : `: a wait of ${predictedMs} ms is predicted`;
  return {
    code,
    message: `${REASONS[reason]}${predicted}`,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  };
}

/** The estimate alone refuses nobody; here it only names the better of two reasons. */
function unattainableProblem(
  rejection: Rejection,
  { model, firstTokenTargetMs }: Pick<CheckedRequest, "model" | "firstTokenTargetMs">,
): Problem {
  const { promptTokens = 0 } = rejection;
  if (promptTokens >= model.contextTokens) {
    return contextLengthProblem(model.contextTokens, `about ${promptTokens}`);
  }
  return {
    code: rejection.code,
    message:
      `The prompt of about ${promptTokens} tokens takes ${predictedMsOf(rejection)} ms to its ` +
      `first token even on an idle replica: expected at most the target of ${firstTokenTargetMs} ms`,
    param: "messages",
  };
}

function predictedMsOf({ predictedWaitMs }: Rejection): number | undefined {
  return predictedWaitMs === undefined ? undefined : Math.ceil(predictedWaitMs);
}

const REASONS = {
  infeasible: "No replica could begin the answer in time",
  "queue-full": "Too many requests wait already",
  "out-of-profile": "The tenant has used what is guaranteed to it, and there is no room beyond",
  "deadline-passed": "No replica came free in time",
  "no-replica": "No replica is there to answer",
  withdrawn: "The request was withdrawn",
} as const satisfies Record<Exclude<Rejection["reason"], "unattainable">, string>;
