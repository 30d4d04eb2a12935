import type { StepCoefficients } from "../step-cost/step-model.ts";
import type { ForecastRequest } from "./latency.ts";
import { prefillOf } from "./latency.ts";

/** What a request's cost is measured on: the same for all of a pool, or costs cannot be compared. */
export interface CostReference {
  readonly step: StepCoefficients;
  /** How many sequences share a step's fixed cost. */
  readonly referenceSequences: number;
}

/** Of a batch that is full: beyond it latency targets bind before slots do. */
const REFERENCE_RATIO = 3 / 8;

/** The batch at which costs are reckoned: 96 of 256 sequences; at least 1. */
export function referenceSequences(sequencesMax: number): number {
  return Math.max(1, Math.round(REFERENCE_RATIO * sequencesMax));
}

/**
 * Milliseconds of a replica's time that a request takes for itself: its prefill, and in each decode step
 * its own token, the reading of its context, and its part of what a step costs anyway. Sums over a
 * replica's requests come to about the time that passes there; tenants are charged in it.
 */
export function requestCostMs(
  request: ForecastRequest,
  { step, referenceSequences: sequences }: CostReference,
): number {
  const { promptTokens, outputTokens } = request;
  const { tokens, pairs } = prefillOf(request);
  const prefillMs = step.tokenMs * tokens + step.attendedPairMs * pairs;
  const contextTokens = promptTokens + outputTokens / 2;
  const decodeStepMs =
    step.fixedMs / sequences +
    step.sequenceMs +
    step.tokenMs +
    (step.kvTokenMs + step.attendedPairMs) * contextTokens;
  return prefillMs + outputTokens * decodeStepMs;
}
