import type { ReplicaLoad } from "../../../../src/replicas/replica-load.ts";

/** An 8B model on a large GPU with nothing to do. */
export const IDLE_LOAD: ReplicaLoad = {
  step: {
    fixedMs: 4.4,
    tokenMs: 0.0141,
    attendedPairMs: 9.8e-7,
    sequenceMs: 0.006,
    kvTokenMs: 3.1e-5,
  },
  speedRatio: 1,
  batchTokensMax: 8192,
  sequencesMax: 256,
  keepsTbt: false,
  keptTbtMs: Infinity,
  prefillTokens: 0,
  prefillPairs: 0,
  sequences: 0,
  kvTokens: 0,
  kvTokensMax: 945_000,
  kvTokensExpected: 0,
  prefillTimeRatio: 0,
  tightestTpotMs: Infinity,
  tightestTbtMs: Infinity,
};

export const BUSY_LOAD: ReplicaLoad = {
  ...IDLE_LOAD,
  prefillTokens: 6000,
  prefillPairs: 6_000_000,
  sequences: 100,
  kvTokens: 120_000,
  kvTokensExpected: 140_000,
  prefillTimeRatio: 0.4,
  tightestTpotMs: 50,
  tightestTbtMs: 100,
};
