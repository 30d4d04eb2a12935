import { steady } from "../workloads/scenarios.ts";
import type { Finding } from "./finding.ts";
import type { PromiseOptions } from "./run.ts";
import { runSeeds } from "./run.ts";
import { goodShare, keptShare, pooledRatio } from "./shares.ts";
import { smallPool, THREE_TENANTS } from "./small-pool.ts";

const LOAD_RATIO = 1.5;
/** In which a pool finds out. */
const WARM_UP_MS = 12_000;

const { profiles, basis } = smallPool();

/**
 * P5 where all replicas tell that their steps take so many times as long as they do: as much is good as where they
 * tell what is so, and promises are kept.
 */
export function findsOutWhatIsToldWrongly(
  options: PromiseOptions,
  toldStepRatio: number,
): Finding[] {
  const experiment = {
    profiles,
    workload: steady(basis, { loadRatio: LOAD_RATIO, profiles: THREE_TENANTS }),
    warmUpMs: WARM_UP_MS,
  };
  const right = runSeeds(options, experiment);
  const wrong = runSeeds(options, { ...experiment, toldStepRatio });
  const goodOf = (runs: typeof right) => pooledRatio(runs.map((run) => goodShare(run.records)));
  return [
    {
      what: "good of what is asked for, of what it is where replicas tell what is so",
      value: goodOf(wrong) / goodOf(right),
      atLeast: 0.85,
    },
    {
      what: "kept promises",
      value: pooledRatio(wrong.map((run) => keptShare(run.records))),
      atLeast: 0.97,
    },
  ];
}
