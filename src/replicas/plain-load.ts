import type { StepCoefficients } from "../step-cost/step-model.ts";
import type { ReplicaLoad } from "./replica-load.ts";
import type { Residents } from "./residents.ts";

/** What a plain server's load is reckoned from: our own requests there. */
export interface PlainLoadSource {
  readonly residents: Residents;
  /** Requests that may be there at once. */
  readonly slots: number;
  /** Learned from how long requests took. */
  readonly speedRatio: number;
  /** Prompt tokens that it cannot have computed by now. */
  readonly backlogTokens: number;
}

/**
 * The speed assumed of a server of which nothing is known: that of a GPU of the day with a model of some
 * 8 G parameters, in round numbers. Completions and first tokens soon tell how far it is off.
 */
export const PLAIN_STEP: StepCoefficients = {
  fixedMs: 10,
  tokenMs: 0.1,
  attendedPairMs: 0,
  sequenceMs: 0.05,
  kvTokenMs: 0,
};

/** Tokens of one step, by the defaults of servers in use. */
const PLAIN_BATCH_TOKENS = 2_048;

/**
 * What a server that never reports has on its hands, as far as we can know: our requests there. What
 * others send it, and what prefill takes from its decodes, shows as a speed below the one assumed. How
 * much KV it has nobody says, so that nothing is refused for want of it.
 */
export function plainLoad(source: PlainLoadSource): ReplicaLoad {
  const { residents, slots, speedRatio, backlogTokens } = source;
  const { ledger, reported } = residents;
  const sentTokens = ledger.prefillTokens + reported.prefillTokens;
  const prefillTokens = Math.min(sentTokens, backlogTokens);
  const leftRatio = sentTokens > 0 ? prefillTokens / sentTokens : 0;
  return {
    step: PLAIN_STEP,
    speedRatio,
    batchTokensMax: PLAIN_BATCH_TOKENS,
    sequencesMax: slots,
    keepsTbt: false,
    keptTbtMs: Infinity,
    prefillTokens,
    prefillPairs: leftRatio * (ledger.prefillPairs + reported.prefillPairs),
    sequences: residents.size,
    kvTokens: ledger.promptTokens + reported.promptTokens,
    kvTokensMax: Infinity,
    kvTokensExpected: ledger.expectedTokens + reported.expectedTokens,
    prefillTimeRatio: 0,
    tightestTpotMs: residents.tightestTpotMs,
    tightestTbtMs: residents.tightestTbtMs,
  };
}
