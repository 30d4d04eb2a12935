import { livePoolOf } from "../experiment.ts";
import { CacheAware } from "../policies/cache-aware.ts";
import type { Policy } from "../policies/policy.ts";
import { PoolDispatcher } from "../pool-dispatcher.ts";
import { PolicyDispatcher } from "../policy-dispatcher.ts";
import { Simulation, tenantsOf } from "../simulation.ts";
import { AZURE_CODE } from "../workloads/lengths.ts";
import { steady } from "../workloads/scenarios.ts";
import { promised } from "../workloads/tenant-mix.ts";
import type { TenantProfile } from "../workloads/tenant-profile.ts";
import { generateArrivals } from "../workloads/workload.ts";
import { BalanceWatch, ceilingOf } from "./balance-watch.ts";
import type { Finding } from "./finding.ts";
import type { PromiseOptions } from "./run.ts";
import { runSeeds } from "./run.ts";
import { keptShare, pooledRatio } from "./shares.ts";
import { CHAT, LASTS_MS, scaled, smallPool, THREE_TENANTS } from "./small-pool.ts";

const REPLICAS = 4;
const LOAD_RATIO = 0.6;
const EVENTS_MAX = 10_000_000;

const { profiles, basis } = smallPool(REPLICAS);

/** Long prompts of which much is the same: what caches are for. */
const CODE: TenantProfile = {
  ...CHAT,
  name: "code",
  lengths: scaled(AZURE_CODE, 1 / 2),
  prefixes: { groups: 40, promptRatio: 0.6 },
  targets: promised(3_000, 200),
};

/** How prompts found their prefixes, and how evenly requests were spread. */
interface Affinity {
  hitTokens: number;
  dispatches: number;
  aboveCeiling: number;
}

/** P10: prompts go where their prefix is, and still no replica gets much more than the others. */
export function findsPrefixesWithinTheBound(
  options: PromiseOptions,
  createPolicy?: () => Policy,
): Finding[] {
  const oracle = affinityOf(options, createOracle);
  const own = affinityOf(options, createPolicy);
  return [
    { what: "hit tokens over the oracle's", value: own.hitTokens / oracle.hitTokens, atLeast: 0.9 },
    {
      what: "dispatches above the ceiling",
      value: own.aboveCeiling / own.dispatches,
      atMost: 0.01,
    },
  ];
}

/** Sends each to where the longest part of it was sent before, of all below the ceiling, whatever it takes. */
function createOracle(): Policy {
  const cacheAware = new CacheAware({ matchRatioMin: 0, imbalanceRequests: Infinity });
  return {
    choose: (request, replicas, moment) => {
      const total = replicas.reduce((sum, { outstanding }) => sum + outstanding, 0);
      const ceiling = ceilingOf(total + 1, replicas.length);
      const open = replicas.filter(({ outstanding }) => outstanding < ceiling);
      return cacheAware.choose(request, open, moment);
    },
  };
}

function affinityOf(options: PromiseOptions, createPolicy?: () => Policy): Affinity {
  const { seeds, measuredMs, mechanisms } = options;
  const affinity: Affinity = { hitTokens: 0, dispatches: 0, aboveCeiling: 0 };
  const workload = steady(basis, { loadRatio: LOAD_RATIO, profiles: [CODE] });
  for (let seed = 1; seed <= seeds; seed += 1) {
    const watch = new BalanceWatch(REPLICAS);
    const pool = { pool: livePoolOf(REPLICAS), ...(mechanisms !== undefined && { mechanisms }) };
    const simulation = new Simulation({
      seed,
      profiles,
      tenants: tenantsOf(workload),
      createDispatcher: (world, verdicts) => {
        const listener = watch.listener(verdicts);
        return watch.dispatcher(
          createPolicy === undefined
            ? new PoolDispatcher(pool, world, listener)
            : new PolicyDispatcher(createPolicy(), world, listener),
        );
      },
      onRecord: ({ cachedTokens = 0 }) => {
        affinity.hitTokens += cachedTokens;
      },
    });
    const { world } = simulation;
    simulation.send(generateArrivals(workload, world.randomFor("workload"), measuredMs));
    world.runToEnd({ endAtMs: 2 * measuredMs, eventsMax: EVENTS_MAX });
    affinity.dispatches += watch.dispatches;
    affinity.aboveCeiling += watch.aboveCeiling;
  }
  return affinity;
}

const BLACK_HOLE_AT_MS = 6_000;
const NOTICED_AFTER_MS = 2_000;

/** P11: a replica that swallows requests is left out, and the others go on. */
export function leavesOutABlackHole(options: PromiseOptions): Finding[] {
  const runs = runSeeds(options, {
    profiles,
    workload: steady(basis, { loadRatio: 0.45, profiles: THREE_TENANTS }),
    warmUpMs: BLACK_HOLE_AT_MS + NOTICED_AFTER_MS,
    faults: [{ kind: "black-hole", replicaIndex: 0, atMs: BLACK_HOLE_AT_MS, forMs: LASTS_MS }],
    timeouts: { firstTokenMs: 500, gapMs: 5_000 },
  });
  const records = runs.flatMap((run) => run.records);
  const dispatches = records.reduce((sum, record) => sum + record.dispatches, 0);
  return [
    {
      what: "kept behind the first two seconds",
      value: pooledRatio(runs.map((run) => keptShare(run.records))),
      atLeast: 0.99,
    },
    { what: "dispatches a request", value: dispatches / records.length, atMost: 1.03 },
  ];
}
