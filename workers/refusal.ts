import type { Rejection } from "../src/pool/offer.ts";
import type { Problem } from "../src/protocol/errors.ts";
import { cappedRetryMs } from "../src/protocol/errors.ts";
import { MODEL_ABSENT } from "../src/protocol/upstream-problem.ts";
import { ttftLimitMs } from "../src/slo/deadlines.ts";
import { costMaxOf } from "../src/tenants/model-price.ts";
import { amountText, picosOfMicros } from "../src/tenants/money.ts";
import type { LimitsVerdict } from "../src/tenants/tenant-limits.ts";
import type { CheckedRequest } from "./call.ts";

/**
 * Which of a tenant's limits stands against a request, and for how long. Some clients read the delay
 * only from the end of the message.
 */
export function limitProblem(
  { limit, retryAfterMs, standings }: LimitRejection,
  request: Pick<CheckedRequest, "tenant" | "tokensMax" | "promptTokens" | "pricing">,
): Problem {
  if (limit === "month" || limit === "spend") return monthProblem(limit, request);
  const { tenant, tokensMax } = request;
  const code = "rate_limit_exceeded";
  if (retryAfterMs === Infinity) {
    const message =
      `The request may take ${tokensMax} tokens, and the tenant's limit is ` +
      `${tenant.tokensPerMinuteMax} tokens per minute: expected a shorter prompt, fewer choices, or a ` +
      "smaller maximum of output tokens (without one it is all that the context leaves)";
    return { code, message, shouldRetry: false };
  }
  const reached = {
    concurrency: `${tenant.concurrencyMax} requests at once is reached`,
    requests: `${tenant.requestsPerMinuteMax} requests per minute is reached`,
    tokens:
      `${tenant.tokensPerMinuteMax} tokens per minute is reached: the request may take ${tokensMax}, ` +
      `and ${standings.tokens?.remaining} are left`,
  };
  const seconds = Math.ceil(cappedRetryMs(retryAfterMs) / 1000);
  return {
    code,
    message: `The tenant's limit of ${reached[limit]}. Please try again in ${seconds}s.`,
    retryAfterMs,
  };
}

/** Trying again helps only when the month is over, and clients shall not do so until then. */
function monthProblem(
  limit: "month" | "spend",
  { tenant, tokensMax, promptTokens, pricing }: Parameters<typeof limitProblem>[1],
): Problem {
  const { tokensPerMonthMax, spendPerMonthMaxMicros = 0 } = tenant;
  const spendMax = amountText(picosOfMicros(spendPerMonthMaxMicros));
  const [ofLimit, mayTake] =
    limit === "month"
      ? [`${tokensPerMonthMax} tokens per month`, `take ${tokensMax}`]
      : [
          `a spend of ${spendMax} per month`,
          `cost ${amountText(costMaxOf(promptTokens, pricing))}`,
        ];
  return {
    code: "insufficient_quota",
    message:
      `The tenant's limit of ${ofLimit} leaves no room for a request that may ${mayTake}: ` +
      "GET /v1/usage tells what is used",
    shouldRetry: false,
  };
}

type LimitRejection = Extract<LimitsVerdict, { kind: "rejected" }>;

/**
 * A prompt that cannot fit its model. Some clients know it only by the words "maximum context
 * length". `length` completes "the prompt has".
 */
export function contextLengthProblem(found: {
  readonly contextTokens: number;
  readonly length: string;
  readonly promptParameter: string;
}): Problem {
  const { contextTokens, length, promptParameter } = found;
  return {
    code: "context_length_exceeded",
    message: `This model's maximum context length is ${contextTokens} tokens, the prompt has ${length}`,
    param: promptParameter,
  };
}

/** What a refusal is told by. */
type RefusedRequest = Pick<
  CheckedRequest,
  "operation" | "target" | "promise" | "isStreamed" | "isOneText"
>;

/**
 * A pool's refusal in words for the client: what was predicted, not which replicas there are. What
 * no replica could answer in time is the request's fault, and so nothing to try again.
 */
export function rejectionProblem(rejection: Rejection, request: RefusedRequest): Problem {
  const { code, reason, retryAfterMs } = rejection;
  if (isOverlong(rejection, request)) {
    return contextLengthProblem({
      contextTokens: request.target.model.contextTokens,
      length: `about ${rejection.promptTokens}`,
      promptParameter: request.operation.promptParameter,
    });
  }
  if (code === "model_not_found") return { code, message: MODEL_ABSENT, param: "model" };
  if (reason === "unattainable") return unattainableProblem(rejection, request);
  const predictedMs = predictedMsOf(rejection);
  const predicted = predictedMs === undefined ? "" : `: a wait of ${predictedMs} ms is predicted`;
  return {
    code,
    message: `${REASONS[reason]}${predicted}`,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  };
}

/**
 * The estimate alone refuses nobody; of what is refused it only names the better of two reasons, since
 * what fits nowhere would be tried again in vain. Where nobody is there to count, that is the reason.
 * Several prompts are estimated together, and each has a context of its own; what came as tokens has
 * been counted.
 */
function isOverlong(
  { reason, promptTokens = 0 }: Rejection,
  { target, isOneText }: RefusedRequest,
): boolean {
  const isNobodyThere = reason === "no-replica" || reason === "closed";
  return !isNobodyThere && isOneText && promptTokens >= target.model.contextTokens;
}

function unattainableProblem(
  rejection: Rejection,
  { operation, promise, isStreamed }: RefusedRequest,
): Problem {
  const { code, promptTokens = 0 } = rejection;
  const firstToken =
    // Nobody here has counted them, and of a short prompt the guess is a large part.
    `The prompt, at a guess from its length ${promptTokens} tokens, takes ` +
    `${predictedMsOf(rejection)} ms to its first token even on an idle replica: expected`;
  const limitMs = ttftLimitMs(promise.targets, promptTokens);
  const isLate = isStreamed && (rejection.predictedWaitMs ?? 0) > limitMs;
  return {
    code,
    message: isLate
      ? `${firstToken} at most the target of ${Number(limitMs.toFixed(2))} ms`
      : `${firstToken} the answer to end within its target`,
    param: operation.promptParameter,
  };
}

/** A wait that has no end in sight is nothing to tell a number of. */
function predictedMsOf({ predictedWaitMs = Infinity }: Rejection): number | undefined {
  return predictedWaitMs === Infinity ? undefined : Math.ceil(predictedWaitMs);
}

const REASONS = {
  infeasible: "No replica could begin the answer in time",
  "queue-full": "Too many requests wait already",
  "out-of-profile": "The tenant has used what is guaranteed to it, and there is no room beyond",
  "deadline-passed": "No replica came free in time",
  "no-replica": "No replica is there to answer",
  closed: "The service is about to stop, or is being maintained",
  withdrawn: "The request was withdrawn",
} as const satisfies Record<Exclude<Rejection["reason"], "unattainable">, string>;
