import { QuantileSketch } from "../../src/base/quantile-sketch.ts";
import { ReplicaId } from "../../src/protocol/ids.ts";
import type { ForeignServer } from "../foreign-server.ts";
import { slowed } from "../hardware-profile.ts";
import type { RequestRecord } from "../request-record.ts";
import { replicaUrl } from "../simulation.ts";
import { steady } from "../workloads/scenarios.ts";
import { BalanceWatch } from "./balance-watch.ts";
import type { Finding } from "./finding.ts";
import type { PromiseOptions } from "./run.ts";
import { runSeeds } from "./run.ts";
import { keptShare, pooledRatio } from "./shares.ts";
import { poolOf, smallPool, THREE_TENANTS } from "./small-pool.ts";

/** How much longer than ours each of the others takes for everything. */
const SLOWNESS = [1, 1, 1.5, 1.5] as const;
const VLLM: ForeignServer = { engine: "vllm", toldRatio: 1 };
const AS_SLOW = 2;
const UNDER_REPORTING = 3;
/** Ours, an honest one as fast, an honest slow one, and one as slow that always says that it is idle. */
const SERVERS: readonly (ForeignServer | undefined)[] = [
  undefined,
  VLLM,
  { engine: "sglang", toldRatio: 1 },
  { ...VLLM, toldRatio: 0 },
];

const LOAD_RATIO = 0.8;
/** In which a pool that begins with a guess learns how fast each of them is. */
const WARM_UP_MS = 20_000;

const { profiles, basis } = poolOf(
  smallPool(1).profiles.flatMap((profile) =>
    SLOWNESS.map((ratio) => (ratio === 1 ? profile : slowed(profile, ratio))),
  ),
);
const FAIR_PART =
  1 / SLOWNESS[UNDER_REPORTING] / SLOWNESS.reduce((sum, ratio) => sum + 1 / ratio, 0);

/**
 * P3 in a pool of engines of different make, speed and honesty: first tokens are in time at the promised level, and
 * one that says that it is idle whatever it does gets no more than its part.
 */
export function mixesEngines(options: PromiseOptions): Finding[] {
  const watches: BalanceWatch[] = [];
  const runs = runSeeds(options, {
    profiles,
    servers: SERVERS,
    workload: steady(basis, { loadRatio: LOAD_RATIO, profiles: THREE_TENANTS }),
    warmUpMs: WARM_UP_MS,
    createWatch: () => {
      const watch = new BalanceWatch(SERVERS.length);
      watches.push(watch);
      return watch;
    },
  });
  const sumOver = (countOf: (watch: BalanceWatch) => number | undefined) =>
    watches.reduce((sum, watch) => sum + (countOf(watch) ?? 0), 0);
  const mostAt = (index: number) => sumOver((watch) => watch.mostAt.get(idOf(index)));
  const part =
    sumOver((watch) => watch.dispatchesTo.get(idOf(UNDER_REPORTING))) /
    sumOver((watch) => watch.dispatches);
  return [
    ...THREE_TENANTS.map(({ name, targets }, index) => ({
      what: `p99 TTFT of ${name} over its target`,
      value: p99TtftMs(runs.flatMap((run) => run.of(index))) / (targets.ttft?.limitMs ?? Infinity),
      atMost: 1,
    })),
    {
      what: "kept promises",
      value: pooledRatio(runs.map((run) => keptShare(run.records))),
      atLeast: 0.98,
    },
    {
      what: "what the one that says it is idle gets, of a fair part",
      value: part / FAIR_PART,
      atMost: 1,
    },
    {
      what: "the most it had at once, of what one as slow had",
      value: mostAt(UNDER_REPORTING) / mostAt(AS_SLOW),
      atMost: 1.2,
    },
  ];
}

const idOf = (index: number): ReplicaId => ReplicaId.parse(replicaUrl(index));

/** Of those that were admitted. */
function p99TtftMs(records: readonly RequestRecord[]): number {
  const sketch = new QuantileSketch();
  for (const { timeline, verdict } of records) {
    if (verdict === "admitted") sketch.add(timeline.ttftMs ?? Infinity);
  }
  return sketch.quantile(0.99) ?? Infinity;
}
