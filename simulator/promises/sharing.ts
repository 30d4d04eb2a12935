import type { TenantShare } from "../../src/tenants/share.ts";
import type { RateShape } from "../workloads/rate-shape.ts";
import { priceOfStart } from "../workloads/scenarios.ts";
import type { TenantProfile } from "../workloads/tenant-profile.ts";
import type { Workload } from "../workloads/workload.ts";
import { CostWatch } from "./cost-watch.ts";
import type { Finding } from "./finding.ts";
import type { PromiseOptions } from "./run.ts";
import { runSeeds } from "./run.ts";
import { admittedShare, pooledRatio } from "./shares.ts";
import { CHAT, smallPool } from "./small-pool.ts";

const WARM_UP_MS = 8_000;

/** Loads grow while nothing counts yet, so that what is seen is how they last and not how they begin. */
const GROWING: RateShape = {
  kind: "ramp",
  fromMs: 0,
  untilMs: WARM_UP_MS,
  fromFactor: 0.1,
  toFactor: 1,
};

const { profiles, basis } = smallPool();

/** Two tenants that ask for three times what there is, of which nothing is guaranteed to either. */
export function beyondGuarantees(): Workload {
  return {
    tenants: [
      trafficOf({ ...CHAT, name: "heavy", share: excess({ weight: 2 }) }, 1.5),
      trafficOf({ ...CHAT, name: "light", share: excess({ weight: 1 }) }, 1.5),
    ],
  };
}

/** P8: two tenants that always have more to do than fits get by their weights, two to one. */
export function sharesByWeight(options: PromiseOptions): Finding[] {
  const workload = beyondGuarantees();
  const watches: CostWatch[] = [];
  const createWatch = () => {
    const watch = new CostWatch(WARM_UP_MS);
    watches.push(watch);
    return watch;
  };
  runSeeds(options, { profiles, workload, warmUpMs: WARM_UP_MS, createWatch });
  const costMsOf = (name: string) => watches.reduce((sum, watch) => sum + watch.costMsOf(name), 0);
  const what = "predicted cost of weight two over that of weight one";
  const value = costMsOf("heavy") / costMsOf("light");
  return [
    { what, value, atLeast: 1.9 },
    { what, value, atMost: 2.1 },
  ];
}

/** P8: who is less urgent and can wait is served in the end, however many are more urgent. */
export function servesLowerBands(options: PromiseOptions): Finding[] {
  const ttft = { percentileRatio: 0.99, limitMs: 20_000 };
  const patient = { ...CHAT, name: "patient", targets: { ...CHAT.targets, ttft } };
  const urgentTtft = { percentileRatio: 0.99, limitMs: 5_000 };
  const urgent = { ...CHAT, name: "urgent", targets: { ...CHAT.targets, ttft: urgentTtft } };
  const workload: Workload = {
    tenants: [
      trafficOf({ ...patient, share: excess({ band: 2 }) }, 0.1),
      trafficOf({ ...urgent, share: excess({ band: 0 }) }, 2.5),
    ],
  };
  const runs = runSeeds(options, { profiles, workload, warmUpMs: WARM_UP_MS });
  return [
    {
      what: "admitted of the least urgent",
      value: pooledRatio(runs.map((run) => admittedShare(run.of(0)))),
      atLeast: 0.95,
    },
  ];
}

function excess(change: Partial<TenantShare>): TenantShare {
  return { weight: 1, guaranteedRatio: 0, band: 0, ...change };
}

function trafficOf(profile: TenantProfile, loadRatio: number) {
  const startsPerSecond = (loadRatio * basis.capacityPerSecond) / priceOfStart(basis, profile);
  return { profile, startsPerSecond, rateShapes: [GROWING] };
}
