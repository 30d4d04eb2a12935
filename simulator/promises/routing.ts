import { QuantileSketch } from "../../src/base/quantile-sketch.ts";
import type { ReplicaId } from "../../src/protocol/ids.ts";
import { CacheAware } from "../policies/cache-aware.ts";
import type { Policy } from "../policies/policy.ts";
import type { RequestRecord } from "../request-record.ts";
import { AZURE_CODE } from "../workloads/lengths.ts";
import { steady } from "../workloads/scenarios.ts";
import { promised } from "../workloads/tenant-mix.ts";
import type { TenantProfile } from "../workloads/tenant-profile.ts";
import { BalanceWatch, ceilingOf } from "./balance-watch.ts";
import type { Finding } from "./finding.ts";
import type { PromiseOptions } from "./run.ts";
import { runSeeds } from "./run.ts";
import { keptShare, pooledRatio } from "./shares.ts";
import { CHAT, LASTS_MS, scaled, smallPool, THREE_TENANTS } from "./small-pool.ts";

const REPLICAS = 4;
const LOAD_RATIO = 0.6;

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
  readonly hitTokens: number;
  readonly promptTokens: number;
  readonly dispatches: number;
  readonly places: ReadonlyMap<ReplicaId, number>;
  readonly kept: number;
  readonly aboveCeiling: number;
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

/** P10: where all prompts begin alike, all replicas come to have that, and none becomes the one for all. */
export function spreadsAHotPrefix(options: PromiseOptions): Finding[] {
  const hot = { ...CODE, name: "hot", prefixes: { groups: 1, promptRatio: 0.8 } };
  const { hitTokens, promptTokens, dispatches, aboveCeiling, places, kept } = affinityOf(
    options,
    undefined,
    hot,
  );
  const most = Math.max(...places.values());
  return [
    {
      what: "hit tokens over those of the prefix",
      value: hitTokens / (0.8 * promptTokens),
      atLeast: 0.9,
    },
    { what: "dispatches above the ceiling", value: aboveCeiling / dispatches, atMost: 0.01 },
    {
      what: "the busiest replica's part, of an equal one",
      value: (most * REPLICAS) / dispatches,
      atMost: 1.25,
    },
    { what: "kept promises", value: kept, atLeast: 0.99 },
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

function affinityOf(
  options: PromiseOptions,
  createPolicy?: () => Policy,
  profile = CODE,
): Affinity {
  const places = new Map<ReplicaId, number>();
  const watches: BalanceWatch[] = [];
  const runs = runSeeds(options, {
    profiles,
    workload: steady(basis, { loadRatio: LOAD_RATIO, profiles: [profile] }),
    warmUpMs: 0,
    createWatch: () => {
      const watch = new BalanceWatch(REPLICAS);
      watches.push(watch);
      return watch;
    },
    ...(createPolicy !== undefined && { createPolicy }),
  });
  const records = runs.flatMap((run) => run.records);
  for (const watch of watches) {
    for (const [replicaId, count] of watch.dispatchesTo) {
      places.set(replicaId, (places.get(replicaId) ?? 0) + count);
    }
  }
  return {
    places,
    kept: pooledRatio(runs.map((run) => keptShare(run.records))),
    hitTokens: records.reduce((sum, { cachedTokens = 0 }) => sum + cachedTokens, 0),
    promptTokens: records.reduce((sum, { spec }) => sum + spec.promptTokens, 0),
    dispatches: watches.reduce((sum, watch) => sum + watch.dispatches, 0),
    aboveCeiling: watches.reduce((sum, watch) => sum + watch.aboveCeiling, 0),
  };
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

/**
 * P11: from the instant on at which a replica begins to swallow requests, first tokens are in time and
 * nobody is told of a failure. `actsOnLateness`: whether late ones are hedged and tried elsewhere.
 */
export function hidesABlackHole(options: PromiseOptions, actsOnLateness = true): Finding[] {
  const runs = runSeeds(options, {
    profiles,
    workload: steady(basis, { loadRatio: 0.45, profiles: THREE_TENANTS }),
    warmUpMs: BLACK_HOLE_AT_MS,
    faults: [{ kind: "black-hole", replicaIndex: 0, atMs: BLACK_HOLE_AT_MS, forMs: LASTS_MS }],
    actsOnLateness,
  });
  const records = runs.flatMap((run) => run.records);
  const dispatches = records.reduce((sum, record) => sum + record.dispatches, 0);
  const failed = records.filter(({ attainment }) => attainment.missed.includes("failed"));
  return [
    ...THREE_TENANTS.map(({ name, targets }, index) => ({
      what: `p99 TTFT of ${name} over its target`,
      value: p99TtftMs(runs.flatMap((run) => run.of(index))) / (targets.ttft?.limitMs ?? Infinity),
      atMost: 1,
    })),
    { what: "failures seen", value: failed.length, atMost: 0 },
    { what: "dispatches a request", value: dispatches / records.length, atMost: 1.03 },
  ];
}

/** Of all requests, those without a first token included. */
function p99TtftMs(records: readonly RequestRecord[]): number {
  const sketch = new QuantileSketch();
  for (const { timeline } of records) sketch.add(timeline.ttftMs ?? Infinity);
  return sketch.quantile(0.99) ?? Infinity;
}
