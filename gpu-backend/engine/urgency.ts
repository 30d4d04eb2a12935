import type { CompareUrgency } from "./scheduler.ts";
import { compareArrival } from "./scheduler.ts";
import type { Policy } from "./scheduling.ts";
import type { Sequence } from "./sequence.ts";
import { predictPrefillMs, type StepForecast } from "../../src/step-cost/step-model.ts";

/** What the order by slack is predicted with. */
export interface SlackForecast {
  readonly forecast: StepForecast;
  readonly batchTokensMax: number;
}

/** One priority is worth so long a wait. */
const PRIORITY_MS = 2000;
/** Priorities further from 0 are alike: the least urgent request is overtaken for minutes at most. */
const PRIORITY_MAX = 60;
/** A request without a first-token deadline is treated as one that has so long. */
const FIRST_TOKEN_PATIENCE_MS = 10_000;
/** A request without a TBT target is treated as one that has this. */
const TBT_PATIENCE_MS = 1000;

/** The order that a policy serves requests in. All of them are total and starve nobody. */
export function urgencyOf(policy: Policy, slackForecast: SlackForecast): CompareUrgency {
  const orders: Readonly<Record<Policy, CompareUrgency>> = {
    fcfs: compareArrival,
    priority: comparePriority,
    "least-slack": compareSlack(slackForecast),
  };
  return orders[policy];
}

/**
 * By priority, lower first, and a wait of two seconds makes up for one. Since all grow older together,
 * the order of two never changes: who comes so much later goes behind, however urgent.
 */
const comparePriority: CompareUrgency = (a, b) =>
  agedPriorityMs(a) - agedPriorityMs(b) || compareArrival(a, b);

/**
 * By how long each can still be left alone: until its deadline, less what is left to be prefilled,
 * predicted for a request that has the engine to itself.
 */
function compareSlack(slackForecast: SlackForecast): CompareUrgency {
  return (a, b, nowMs) =>
    startBeforeMs(a, nowMs, slackForecast) - startBeforeMs(b, nowMs, slackForecast) ||
    compareArrival(a, b);
}

function agedPriorityMs({ request, arrivedAtMs }: Sequence): number {
  const priority = Math.min(PRIORITY_MAX, Math.max(-PRIORITY_MAX, request.priority));
  return arrivedAtMs + priority * PRIORITY_MS;
}

/** The instant at which its prefill must have begun, or its next token, to be in time. */
function startBeforeMs(sequence: Sequence, nowMs: number, slackForecast: SlackForecast): number {
  return dueAtMs(sequence, nowMs) - remainingPrefillMs(sequence, slackForecast);
}

function dueAtMs({ request, arrivedAtMs, outputTokens, preemptedAtMs }: Sequence, nowMs: number) {
  if (outputTokens === 0) {
    return request.firstTokenDeadlineAtMs ?? arrivedAtMs + FIRST_TOKEN_PATIENCE_MS;
  }
  // A decode had its last token in the step before this one; a preempted one when it lost its KV.
  return (preemptedAtMs ?? nowMs) + (request.tbtTargetMs ?? TBT_PATIENCE_MS);
}

function remainingPrefillMs(
  { knownTokens, uncachedTokens }: Sequence,
  { forecast, batchTokensMax }: SlackForecast,
): number {
  return predictPrefillMs(forecast, {
    computedTokens: knownTokens - uncachedTokens,
    tokens: uncachedTokens,
    batchTokensMax,
  });
}
