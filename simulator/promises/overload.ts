import { seededRandom } from "../../src/base/random.ts";
import { shareUpperBound } from "../bootstrap.ts";
import { ConcurrencyLimit } from "../policies/concurrency-limit.ts";
import { steady } from "../workloads/scenarios.ts";
import { costMsOf } from "./cost.ts";
import type { Finding } from "./finding.ts";
import type { PromiseOptions, SeedRun } from "./run.ts";
import { runSeeds } from "./run.ts";
import { missedShare, pooledRatio, refusedInProfileShare } from "./shares.ts";
import { smallPool, THREE_TENANTS } from "./small-pool.ts";

const LOAD_RATIO = 2;
/** By then what tenants had saved up of their guarantees while nobody asked for anything is spent. */
const WARM_UP_MS = 20_000;
/** Requests on one replica, up to where targets break. */
const LIMITS = [40, 48, 56, 64, 72, 80] as const;

const { profiles, basis } = smallPool();
const WORKLOAD = steady(basis, { loadRatio: LOAD_RATIO, profiles: THREE_TENANTS });
const EXPERIMENT = { profiles, workload: WORKLOAD, warmUpMs: WARM_UP_MS };

/** P4: what is admitted at twice the load is in time, and what is guaranteed is admitted. */
export function keepsPromisesAtTwiceTheLoad(options: PromiseOptions): Finding[] {
  const runs = runSeeds(options, EXPERIMENT);
  return THREE_TENANTS.flatMap(({ name }, tenantIndex): Finding[] => {
    const tenantRuns = runs.map((run) => run.of(tenantIndex));
    const missed = tenantRuns.map(missedShare);
    return [
      {
        what: `misses of ${name}, of ${missed.reduce((sum, { whole }) => sum + whole, 0)} admitted`,
        value: shareUpperBound(missed, { random: seededRandom(1) }),
        atMost: 0.01,
      },
      {
        what: `in profile accepted of ${name}`,
        value: 1 - pooledRatio(tenantRuns.map(refusedInProfileShare)),
        atLeast: 0.999,
      },
    ];
  });
}

/** P4: refusing costs little of what could have been done, held against the best limit for these seeds. */
export function servesAsMuchAsTheBestLimit(
  options: PromiseOptions,
  limits: readonly number[] = LIMITS,
): Finding[] {
  const best = limits.map((outstandingMax) => {
    const createPolicy = () => new ConcurrencyLimit({ outstandingMax });
    return goodCostMs(runSeeds(options, { ...EXPERIMENT, createPolicy }));
  });
  return [
    {
      what: "good cost, as a part of the best concurrency limit's",
      value: goodCostMs(runSeeds(options, EXPERIMENT)) / Math.max(...best),
      atLeast: 0.9,
    },
  ];
}

function goodCostMs(runs: readonly SeedRun[]): number {
  const records = runs.flatMap((run) => run.records);
  return costMsOf(
    records.filter(({ attainment }) => attainment.kind === "good"),
    basis,
  );
}
