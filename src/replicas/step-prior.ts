import type { ReplicaReport } from "../protocol/engine-api.ts";
import type { StepCoefficients } from "../step-cost/step-model.ts";

/**
 * The speed assumed of a replica that has measured none. Modest, yet not so low that the replica
 * never gets the request that would teach it.
 */
const PRIOR: StepCoefficients = {
  fixedMs: 10,
  tokenMs: 1,
  attendedPairMs: 0,
  sequenceMs: 0.05,
  kvTokenMs: 0,
};

/** Whether a replica says what its steps cost; no step costs nothing. */
export function tellsStepCost({ step }: ReplicaReport): boolean {
  return step.fixedMs > 0 || step.tokenMs > 0;
}

/** What a step costs there: as the replica has fitted it, by what else it measured, or a guess. */
export function stepCostOf(report: ReplicaReport): StepCoefficients {
  if (tellsStepCost(report)) return report.step;
  const { stepMs, prefillTokensPerSecond } = report;
  return {
    ...PRIOR,
    ...(stepMs > 0 && { fixedMs: stepMs }),
    ...(prefillTokensPerSecond > 0 && { tokenMs: 1_000 / prefillTokensPerSecond }),
  };
}
