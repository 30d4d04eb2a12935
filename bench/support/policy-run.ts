import { addCounts, noCounts } from "../../src/slo/attainment-window.ts";
import type { AttainmentCounts } from "../../src/slo/attainment-window.ts";
import type { Goodput } from "../../src/slo/goodput.ts";
import { toGoodput } from "../../src/slo/goodput.ts";
import type { Fault } from "../../simulator/faults.ts";
import { runExperiment, sustainableBasisOf } from "../../simulator/experiment.ts";
import type { HardwareProfile } from "../../simulator/hardware-profile.ts";
import type { PolicyName } from "../../simulator/policies/reference-policies.ts";
import { REFERENCE_POLICIES } from "../../simulator/policies/reference-policies.ts";
import { requestRates } from "../../simulator/workloads/scenarios.ts";
import type { Workload } from "../../simulator/workloads/workload.ts";

/** What happens: who asks for what, on which replicas, and what breaks. */
export interface Scenario {
  readonly name: string;
  readonly profiles: readonly HardwareProfile[];
  readonly workload: Workload;
  readonly faults?: readonly Fault[];
  /** The tenant that makes the trouble; the others are its victims. */
  readonly culprit?: string;
}

/** Who decides: the core, or a policy, with the limit on each replica where it takes one. */
export interface Contender {
  readonly name: string;
  readonly policy: PolicyName | "sluice";
  readonly outstandingMax?: number;
}

/** How long, and for how many seeds. */
export interface RunLength {
  readonly seeds: number;
  readonly warmUpMs: number;
  readonly measuredMs: number;
}

/** What became of a scenario under a contender, over all seeds. */
export interface Standing {
  readonly goodput: Goodput;
  /** Good GPU-ms by each request's own cost. */
  readonly goodCostMs: number;
  /** The same where every request counts as its tenant's mean: serving the cheap ones gains nothing. */
  readonly goodMeanCostMs: number;
  /** Of the tenants but the culprit, the least part of what one offered that was good. */
  readonly worstVictimRatio: number;
  readonly worstAttainmentRatio: number;
}

const OUTSTANDING_MAX = 100;

/** Lets a contender decide in a scenario, once for each seed. */
export function standingOf(scenario: Scenario, contender: Contender, length: RunLength): Standing {
  const { seeds, warmUpMs, measuredMs } = length;
  const { profiles, workload, faults, culprit } = scenario;
  const totals = workload.tenants.map(() => noCounts());
  for (let seed = 1; seed <= seeds; seed += 1) {
    const createPolicy = policyOf(contender, scenario);
    const { scorecard } = runExperiment({
      seed,
      profiles,
      workload,
      warmUpMs,
      measuredMs,
      ...(faults !== undefined && { faults }),
      ...(createPolicy !== undefined && { createPolicy }),
    });
    for (const [index, { counts }] of scorecard.tenants.entries()) {
      const total = totals[index];
      if (total !== undefined) addCounts(total, counts);
    }
  }
  const all = noCounts();
  for (const counts of totals) addCounts(all, counts);
  const goodputs = totals.map((counts) => toGoodput(counts, seeds * measuredMs));
  const victims = goodputs.filter((_, index) => workload.tenants[index]?.profile.name !== culprit);
  return {
    goodput: toGoodput(all, seeds * measuredMs),
    goodCostMs: all.goodCostMs,
    goodMeanCostMs: totals.reduce((sum, counts) => sum + counts.good * meanCostMs(counts), 0),
    worstVictimRatio: Math.min(...victims.map(({ offeredGoodRatio }) => offeredGoodRatio ?? 1)),
    worstAttainmentRatio: Math.min(
      ...goodputs.map(({ admittedAttainmentRatio }) => admittedAttainmentRatio ?? 1),
    ),
  };
}

function meanCostMs({ offered, offeredCostMs }: AttainmentCounts): number {
  return offered === 0 ? 0 : offeredCostMs / offered;
}

/** `undefined` is the core. */
function policyOf({ policy, outstandingMax = OUTSTANDING_MAX }: Contender, scenario: Scenario) {
  if (policy === "sluice") return undefined;
  const { profiles, workload } = scenario;
  const requestsPerMs = requestRates(
    sustainableBasisOf(profiles),
    workload.tenants.map(({ profile }) => profile),
  );
  const initialLimit = outstandingMax * profiles.length;
  return () => REFERENCE_POLICIES[policy]({ requestsPerMs, outstandingMax, initialLimit });
}
