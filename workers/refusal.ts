import type { Rejection } from "../src/pool/offer.ts";
import type { Problem } from "../src/protocol/errors.ts";

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

/** A pool's refusal in words for the client: what was predicted, not which replicas there are. */
export function rejectionProblem({
  code,
  reason,
  retryAfterMs,
  predictedWaitMs,
}: Rejection): Problem {
  const predicted =
    predictedWaitMs === undefined
      ? ""
      : `: a wait of ${Math.ceil(predictedWaitMs)} ms is predicted`;
  return { code, message: `${REASONS[reason]}${predicted}`, retryAfterMs };
}

const REASONS = {
  infeasible: "No replica could begin the answer in time",
  "queue-full": "Too many requests wait already",
  "deadline-passed": "No replica came free in time",
  "no-replica": "No replica is there to answer",
  withdrawn: "The request was withdrawn",
} as const satisfies Record<Rejection["reason"], string>;
