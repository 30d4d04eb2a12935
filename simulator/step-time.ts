import type { Random } from "../src/base/random.ts";
import type { StepWork } from "../src/step-cost/step-model.ts";
import type { HardwareProfile } from "./hardware-profile.ts";
import { standardNormal } from "./workloads/intervals.ts";

/**
 * How long a step takes on a machine, by the roofline: the longer of computing and reading, then launch
 * and host. Deliberately not linear in the work, as forecasts are: a simulation in which both had
 * one form would only prove that a formula equals itself.
 */
export function stepTimeMs(profile: HardwareProfile, work: StepWork): number {
  const { tileTokens, halfEfficiencyTokens } = profile;
  const tiledTokens = Math.ceil(work.tokens / tileTokens) * tileTokens;
  const efficiencyRatio = tiledTokens / (tiledTokens + halfEfficiencyTokens);
  const computeMs =
    (tiledTokens * profile.tokenMs) / efficiencyRatio + work.attendedPairs * profile.attendedPairMs;
  const memoryMs = profile.weightsMs + work.kvTokens * profile.kvTokenMs;
  return Math.max(computeMs, memoryMs) + profile.launchMs + work.sequences * profile.sequenceMs;
}

/** The same with what machines do to it: log-normal noise of mean one, and a rare stall. */
export function noisyStepTimeMs(profile: HardwareProfile, work: StepWork, random: Random): number {
  const { noiseRatio, stepsPerStall, stallMs } = profile;
  const noise = Math.exp(noiseRatio * standardNormal(random) - noiseRatio ** 2 / 2);
  const isStalled = random() * stepsPerStall < 1;
  return stepTimeMs(profile, work) * noise + (isStalled ? stallMs : 0);
}
