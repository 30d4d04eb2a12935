import type { CompareUrgency } from "./scheduler.ts";
import type { KvAdmissionRule } from "./scheduling.ts";
import type { Speculation } from "./speculation/speculation.ts";
import type { StepForecast } from "../../src/step-cost/step-model.ts";

/** What a scheduler decides by. */
export interface SchedulerOptions {
  /** Sequences that run at once. */
  readonly sequencesMax: number;
  /** Tokens of one step; at least `sequencesMax`, so that every decode gets its one. */
  readonly batchTokensMax: number;
  /** False: a prompt is computed in one step or waits for one that has room for all of it. */
  readonly chunkedPrefill: boolean;
  readonly compareUrgency: CompareUrgency;
  /** What steps will take; needed for whatever is decided by time. */
  readonly forecast?: StepForecast | undefined;
  /** A step has no more prefill than keeps the TBT targets of those that decode, which needs chunks. */
  readonly keepsTbt: boolean;
  readonly kvAdmission: KvAdmissionRule;
  /** Guesses outputs; without it every decode has one token a step. */
  readonly speculation?: Speculation | undefined;
}
