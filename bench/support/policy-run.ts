import { CostBucket } from "../../src/tenants/cost-bucket.ts";
import { GuaranteeBucket } from "../../src/tenants/guarantee-bucket.ts";
import type { ClientBehaviour } from "../../simulator/client.ts";
import type { Fault } from "../../simulator/faults.ts";
import { loadBasisOf, runExperiment } from "../../simulator/experiment.ts";
import type { HardwareProfile } from "../../simulator/hardware-profile.ts";
import type { PolicyName, PolicySettings } from "../../simulator/policies/reference-policies.ts";
import { REFERENCE_POLICIES } from "../../simulator/policies/reference-policies.ts";
import type { ReportFaults } from "../../simulator/replica-link.ts";
import type { RequestRecord } from "../../simulator/request-record.ts";
import type { LoadBasis } from "../../simulator/workloads/scenarios.ts";
import { requestRates } from "../../simulator/workloads/scenarios.ts";
import type { Workload } from "../../simulator/workloads/workload.ts";

/** What happens: who asks for what, on which replicas, and what breaks. */
export interface Scenario {
  /** As a command line names it. */
  readonly id: string;
  readonly name: string;
  /** What a load of 1 is. */
  readonly basis: LoadBasis;
  readonly profiles: readonly HardwareProfile[];
  readonly workload: Workload;
  readonly faults?: readonly Fault[];
  readonly clients?: ClientBehaviour;
  readonly reportFaults?: ReportFaults;
  readonly toldStepRatio?: number;
  /** The tenant that makes the trouble; the others are its victims. */
  readonly culprit?: string;
}

/** Who decides: the core, or a policy with its knobs. */
export interface Contender {
  readonly name: string;
  readonly policy: PolicyName | "sluice";
  /** As it is written beside its name. */
  readonly knob: string;
  readonly settings: Settings;
}

/** Settings that do not depend on the size of the pool. */
interface Settings extends Partial<Omit<PolicySettings, "requestsPerMs" | "initialLimit">> {
  /** How much of its part of the pool each tenant is let have. */
  readonly soldRatio?: number;
  /** At how many requests on each replica the limit of the whole pool begins. */
  readonly limitOfEach?: number;
}

/** How long each run is. */
export interface RunLength {
  readonly warmUpMs: number;
  readonly measuredMs: number;
}

/** One tenant's requests of one run. */
export interface TenantCounts {
  readonly offered: number;
  readonly refused: number;
  /** Admitted and judged. */
  readonly judged: number;
  readonly good: number;
  readonly goodCostMs: number;
  readonly admittedCostMs: number;
  /** What was within the tenant's guarantee of what it asked for. */
  readonly inProfileCostMs: number;
}

/** Of what was guaranteed and asked for, how much was admitted, tenant by tenant; 1 where nothing was. */
export function keptRatio(tenants: readonly TenantCounts[]): number {
  let guaranteed = 0;
  let kept = 0;
  for (const { inProfileCostMs, admittedCostMs } of tenants) {
    guaranteed += inProfileCostMs;
    kept += Math.min(inProfileCostMs, admittedCostMs);
  }
  return guaranteed === 0 ? 1 : kept / guaranteed;
}

/** What became of a scenario with one seed under a contender. */
export interface SeedOutcome {
  readonly tenants: readonly TenantCounts[];
  /** Of all the pool's time while it was measured, what good requests are worth. */
  readonly goodCostRatio: number;
}

type Tally = { -readonly [Key in keyof TenantCounts]: TenantCounts[Key] };

/** As `sluice up` starts its engines, and the same under every contender. */
const ENGINE = { keepsTbt: true } as const;
const OUTSTANDING_MAX = 56;

/** Lets a contender decide in a scenario, with one seed. */
export function outcomeOf(
  scenario: Scenario,
  contender: Contender,
  { seed, length }: { readonly seed: number; readonly length: RunLength },
): SeedOutcome {
  const { profiles, workload, faults, clients, reportFaults, toldStepRatio } = scenario;
  const { warmUpMs, measuredMs } = length;
  const createPolicy = policyOf(contender, scenario);
  const records: RequestRecord[] = [];
  runExperiment({
    seed,
    profiles,
    workload,
    warmUpMs,
    measuredMs,
    engine: ENGINE,
    ...(faults !== undefined && { faults }),
    ...(clients !== undefined && { clients }),
    ...(reportFaults !== undefined && { reportFaults }),
    ...(toldStepRatio !== undefined && { toldStepRatio }),
    ...(createPolicy !== undefined && { createPolicy }),
    onRecord: (record) => records.push(record),
  });
  const { capacityPerSecond } = loadBasisOf(profiles);
  const tenants = countRecords(records, scenario, length);
  const goodCostMs = tenants.reduce((sum, tenant) => sum + tenant.goodCostMs, 0);
  return { tenants, goodCostRatio: goodCostMs / ((capacityPerSecond * measuredMs) / 1000) };
}

/**
 * Counts by one yardstick for all: how much was in profile is reckoned from what was asked for alone, by the
 * guarantees of the tenants' shares and each request's own cost, whoever decided. How much and not which: a
 * tenant that asks for more than it is guaranteed has got its guarantee whichever of its requests those were.
 */
function countRecords(
  records: readonly RequestRecord[],
  { profiles, workload }: Scenario,
  { warmUpMs, measuredMs }: RunLength,
): TenantCounts[] {
  const { price, capacityPerSecond } = loadBasisOf(profiles);
  const poolRateMsPerMs = capacityPerSecond / 1000;
  const joint = new CostBucket();
  const buckets = workload.tenants.map(() => new GuaranteeBucket(joint));
  const tallies = workload.tenants.map((): Tally => ({ ...NOTHING }));
  for (const record of records.toSorted((a, b) => a.arrivedAtMs - b.arrivedAtMs)) {
    const { spec, arrivedAtMs, verdict, attainment } = record;
    const tally = tallies[spec.tenantIndex];
    const share = workload.tenants[spec.tenantIndex]?.profile.share;
    if (tally === undefined || share === undefined) continue;
    const costMs = price(spec);
    const rates = { rateMsPerMs: share.guaranteedRatio * poolRateMsPerMs, poolRateMsPerMs };
    const isInProfile = buckets[spec.tenantIndex]?.take(costMs, rates, arrivedAtMs) === true;
    if (arrivedAtMs < warmUpMs || arrivedAtMs >= warmUpMs + measuredMs) continue;
    const isRefused = verdict === "refused";
    const isGood = attainment.kind === "good" && !attainment.isDegraded && verdict === "admitted";
    tally.offered += 1;
    tally.refused += isRefused ? 1 : 0;
    tally.judged += verdict === "admitted" && attainment.kind !== "excluded" ? 1 : 0;
    tally.good += isGood ? 1 : 0;
    tally.goodCostMs += isGood ? costMs : 0;
    tally.admittedCostMs += verdict === "admitted" ? costMs : 0;
    tally.inProfileCostMs += isInProfile ? costMs : 0;
  }
  return tallies;
}

const NOTHING: TenantCounts = {
  offered: 0,
  refused: 0,
  judged: 0,
  good: 0,
  goodCostMs: 0,
  admittedCostMs: 0,
  inProfileCostMs: 0,
};

/** `undefined` is the core. */
function policyOf({ policy, settings }: Contender, { profiles, workload, basis }: Scenario) {
  if (policy === "sluice") return undefined;
  const { soldRatio = 1, limitOfEach = OUTSTANDING_MAX, ...given } = settings;
  const tenants = workload.tenants.map(({ profile }) => profile);
  const exact = requestRates(basis, tenants);
  const filled: PolicySettings = {
    requestsPerMs: new Map(
      tenants.map(({ name, sessions }) => {
        const turns = sessions?.turnsMean ?? 1;
        return [name, soldRatio * turns * (exact.get(name) ?? 0)];
      }),
    ),
    outstandingMax: OUTSTANDING_MAX,
    initialLimit: limitOfEach * profiles.length,
    ...given,
  };
  return () => REFERENCE_POLICIES[policy](filled);
}
