import type { StepCoefficients } from "../step-cost/step-model.ts";

/**
 * What a replica has on its hands at an instant: its last report, what it cannot know yet of what we
 * sent, and less what it must have done since. Of the waiting and running requests of everybody.
 */
export interface ReplicaLoad {
  /** What a step costs here; times `speedRatio`. */
  readonly step: StepCoefficients;
  readonly speedRatio: number;
  readonly batchTokensMax: number;
  readonly sequencesMax: number;
  /** Whether the engine paces prefill by the gaps that it is told to keep. */
  readonly keepsTbt: boolean;
  /**
   * The gap that the engine itself keeps prefill from exceeding; `Infinity` where it keeps none, by what it
   * said last.
   */
  readonly keptTbtMs: number;
  /** Prompt tokens that are neither computed nor cached. */
  readonly prefillTokens: number;
  readonly prefillPairs: number;
  /** Requests there: those that run, and those that wait for a sequence. */
  readonly sequences: number;
  /** Tokens of KV held by those that run, or that those that wait will hold. */
  readonly kvTokens: number;
  readonly kvTokensMax: number;
  /** Of `kvTokens` and what is still to come until everybody there has the output expected of it. */
  readonly kvTokensExpected: number;
  /** Which share of recent time went to prefill. */
  readonly prefillTimeRatio: number;
  /** The tightest targets of those that are there; `Infinity` if none has one. */
  readonly tightestTpotMs: number;
  readonly tightestTbtMs: number;
}

/** One of our requests on a replica, for forecasts of when its sequence ends. */
export interface Resident {
  readonly tenantId: string;
  readonly modelId: string;
  readonly promptTokens: number;
  /** Tokens it can have at most. */
  readonly outputTokensMax: number | undefined;
  /** When its first token came; absent while it has none. */
  readonly firstTokenAtMs?: number;
}
