import type { HardwareProfile } from "../../simulator/hardware-profile.ts";

/**
 * A GPU so slow that two shared cores can stand for several: a step of 16 sequences takes some 100 ms, in which the
 * gateway and the engines' own work do not matter. Limits are those that `sluice up` starts its engines with.
 */
export const PACED: HardwareProfile = {
  name: "paced",
  source: "made up; steps as slow as a large model's",
  weightsMs: 60,
  kvTokenMs: 0.001,
  tokenMs: 0.5,
  halfEfficiencyTokens: 16,
  tileTokens: 1,
  attendedPairMs: 0,
  launchMs: 16,
  sequenceMs: 1.6,
  noiseRatio: 0.05,
  stepsPerStall: 1e9,
  stallMs: 0,
  blockTokens: 16,
  blockCount: 2_048,
  sequencesMax: 16,
  batchTokensMax: 256,
  queueMax: 64,
  contextTokens: 2_048,
};
