import type { EngineSignals } from "../protocol/engine-signals.ts";
import type { StepCoefficients } from "../step-cost/step-model.ts";
import type { ReplicaLoad } from "./replica-load.ts";
import type { Residents } from "./residents.ts";

/** What a plain server's load is reckoned from: our own requests there. */
export interface PlainLoadSource {
  readonly residents: Residents;
  /** Requests of others there, as far as it says. */
  readonly strangers: number;
  /** What it says of itself, if that is not too long ago. */
  readonly signals: EngineSignals | undefined;
  /** Requests that may be there at once. */
  readonly slots: number;
  /** Learned from how long requests took. */
  readonly speedRatio: number;
  /** Prompt tokens that it cannot have computed by now. */
  readonly backlogTokens: number;
  /** False goes by what it says alone, to show what our own count is for. */
  readonly countsLedger: boolean;
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
 * What a server that never reports has on its hands: our requests there, and where it says how much it has to
 * do, those of others. All else, and what prefill takes from its decodes, shows as a speed below the one assumed.
 * How much KV it has nobody says, so that nothing is refused for want of it; but one in which requests wait runs
 * no more at once than it does now, whatever the reason.
 */
export function plainLoad(source: PlainLoadSource): ReplicaLoad {
  const { residents, strangers, signals, slots, speedRatio, backlogTokens } = source;
  const { ledger, reported } = residents;
  const sentTokens = ledger.prefillTokens + reported.prefillTokens;
  const ownTokens = Math.min(sentTokens, backlogTokens);
  const leftRatio = sentTokens > 0 ? ownTokens / sentTokens : 0;
  const { running = 0, queued = 0, queuedTokens = 0 } = signals ?? {};
  const told = { sequences: running + queued, prefillTokens: queuedTokens, prefillPairs: 0 };
  return {
    step: PLAIN_STEP,
    speedRatio,
    batchTokensMax: PLAIN_BATCH_TOKENS,
    sequencesMax: queued > 0 && running > 0 ? Math.min(slots, running) : slots,
    keepsTbt: false,
    keptTbtMs: Infinity,
    prefillTokens: Math.max(ownTokens, queuedTokens),
    prefillPairs: leftRatio * (ledger.prefillPairs + reported.prefillPairs),
    sequences: residents.size + strangers,
    kvTokens: ledger.promptTokens + reported.promptTokens,
    kvTokensMax: Infinity,
    kvTokensExpected: ledger.expectedTokens + reported.expectedTokens,
    prefillTimeRatio: 0,
    tightestTpotMs: residents.tightestTpotMs,
    tightestTbtMs: residents.tightestTbtMs,
    ...(!source.countsLedger && told),
  };
}
