import type { HashBlock } from "./kv-cache/block-chain.ts";
import type { KvTier } from "./kv-cache/kv-tier.ts";
import type { KvSharesOptions } from "./kv-cache/kv-shares.ts";
import type { CompareUrgency } from "./scheduler.ts";
import type { KvAdmissionRule } from "./scheduling.ts";
import type { SpeculationOptions } from "./speculation/speculation.ts";
import type { StepForecast } from "../../src/step-cost/step-model.ts";

/** What an engine is and how it decides; what is absent is not done. */
export interface EngineOptions {
  readonly blockCount: number;
  readonly blockTokens: number;
  /** Prompt and output of one request together. */
  readonly contextTokens: number;
  readonly batchTokensMax: number;
  readonly sequencesMax: number;
  /** Requests that may wait beyond those that can run. */
  readonly queueMax: number;
  readonly prefixCache: boolean;
  readonly modelRevision: string;
  readonly hashBlock: HashBlock;
  /** Unless false, a prompt may be computed piece by piece, in steps with others. */
  readonly chunkedPrefill?: boolean;
  /** First come, first served unless given. */
  readonly compareUrgency?: CompareUrgency;
  /** What steps will take. Without it nothing is decided by time but what is late already. */
  readonly forecast?: StepForecast;
  /** A step has no more prefill than keeps the TBT targets of those that decode. Needs a forecast. */
  readonly keepsTbt?: boolean;
  /** None unless given: the pool is everybody's. */
  readonly shares?: KvSharesOptions;
  /** By known tokens unless given. */
  readonly kvAdmission?: KvAdmissionRule;
  /** Keeps what changes in the prefix cache until `takeKvEvents`. Nothing is kept unless given. */
  readonly logsEvents?: boolean;
  /** What the pool evicts is kept there, and loaded where that is quicker than to compute it. None unless given. */
  readonly kvTier?: KvTier;
  /**
   * How many times its own time a prompt costs that is computed here instead of fetched, since all who decode
   * here wait for it as well. 1 unless given.
   */
  readonly prefillCostRatio?: number;
  /** Outputs are guessed and verified, several tokens a step. Nothing is unless given. */
  readonly speculation?: SpeculationOptions;
}
