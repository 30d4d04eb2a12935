import { workOfChunk } from "../src/step-cost/step-model.ts";
import { StepMeter } from "../gpu-backend/engine/step-meter.ts";
import type { HardwareProfile } from "./hardware-profile.ts";
import { stepTimeMs } from "./step-time.ts";

/** The prompt that an engine's warm-up runs. */
const WARM_UP_TOKENS = 512;

/** A step meter that knows what the real engine's warm-up would have measured on this machine. */
export function warmedUp(profile: HardwareProfile): StepMeter {
  const tokens = Math.min(WARM_UP_TOKENS, profile.batchTokensMax);
  const prefillMs = stepTimeMs(profile, workOfChunk(0, tokens));
  return new StepMeter({
    stepMs: stepTimeMs(profile, workOfChunk(0, 1)),
    prefillTokensPerSecond: (tokens / prefillMs) * 1000,
  });
}
