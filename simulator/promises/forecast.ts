import { EXCEEDANCE_RATIOS } from "../../src/forecast/calibration.ts";
import type { ExperimentOptions } from "../experiment.ts";
import type { Policy } from "../policies/policy.ts";
import { burst, steady } from "../workloads/scenarios.ts";
import type { Covered } from "./coverage-watch.ts";
import { CoverageWatch } from "./coverage-watch.ts";
import type { Finding } from "./finding.ts";
import type { PromiseOptions } from "./run.ts";
import { runSeeds } from "./run.ts";
import { goodShare, pooledRatio, shareOf } from "./shares.ts";
import { LASTS_MS, smallPool, THREE_TENANTS } from "./small-pool.ts";

const OFF_RATIO_MAX = 0.5;
const HIGH_LOAD_RATIO = 1.2;

const { profiles, basis } = smallPool();

/** By then bounds are learned. */
const LEARNED_BY_MS = 20_000;

/**
 * P5: bounds are exceeded as often as they are meant to be, in each bin with enough samples to tell. Of the
 * pace that an engine keeps, no more often: what it keeps is not left to chance.
 */
export function exceedsBoundsAsOftenAsMeant(
  options: PromiseOptions & { readonly samplesMin: number },
  engine: ExperimentOptions["engine"] = { keepsTbt: true },
): Finding[] {
  const watches: CoverageWatch[] = [];
  runSeeds(options, {
    profiles,
    workload: steady(basis, { loadRatio: HIGH_LOAD_RATIO, profiles: THREE_TENANTS }),
    warmUpMs: LEARNED_BY_MS,
    engine,
    createWatch: () => {
      const watch = new CoverageWatch(LEARNED_BY_MS);
      watches.push(watch);
      return watch;
    },
  });
  const judged = [...sumOf(watches)].filter(([, { samples }]) => samples >= options.samplesMin);
  const findings = judged.flatMap(([name, { dimension, samples, exceeded }]): Finding[] => {
    const value = exceeded / samples / EXCEEDANCE_RATIOS[dimension];
    const what = `exceeded over meant: ${name} of ${samples}`;
    const atMost: Finding = { what, value, atMost: 1 + OFF_RATIO_MAX };
    const isKept = dimension === "tpot" && engine?.keepsTbt === true;
    return isKept ? [atMost] : [atMost, { what, value, atLeast: 1 - OFF_RATIO_MAX }];
  });
  return [{ what: "bins with enough samples", value: judged.length, atLeast: 1 }, ...findings];
}

function sumOf(watches: readonly CoverageWatch[]): Map<string, Covered> {
  const bins = new Map<string, Covered>();
  for (const [name, { dimension, samples, exceeded }] of watches.flatMap(({ bins: some }) => [
    ...some,
  ])) {
    const sum = bins.get(name) ?? { dimension, samples: 0, exceeded: 0 };
    sum.samples += samples;
    sum.exceeded += exceeded;
    bins.set(name, sum);
  }
  return bins;
}

const SLOW_FROM_MS = 8_000;
const LEARNING_COMPLETIONS = 500;
const JUDGED_COMPLETIONS = 1_000;

/** P5: when a replica becomes twice as slow, five hundred completions later it is reckoned with. */
export function learnsThatAReplicaIsSlower(
  options: PromiseOptions,
  createPolicy?: () => Policy,
): Finding[] {
  const runs = runSeeds(options, {
    profiles,
    workload: steady(basis, { loadRatio: 0.7, profiles: THREE_TENANTS }),
    warmUpMs: SLOW_FROM_MS,
    faults: [{ kind: "slow", ratio: 2, replicaIndex: 0, atMs: SLOW_FROM_MS, forMs: LASTS_MS }],
    ...(createPolicy !== undefined && { createPolicy }),
  });
  const judged = runs.map(({ records }) =>
    records
      .filter(({ verdict }) => verdict === "admitted")
      .slice(LEARNING_COMPLETIONS, LEARNING_COMPLETIONS + JUDGED_COMPLETIONS),
  );
  return [
    {
      what: "completions behind the first five hundred",
      value: Math.min(...judged.map(({ length }) => length)),
      atLeast: 500,
    },
    {
      what: "misses among them",
      value: pooledRatio(
        judged.map((records) => shareOf(records, ({ attainment }) => attainment.kind === "missed")),
      ),
      atMost: 0.02,
    },
  ];
}

const FLOOD_MS = 5_000;
const FORGIVEN_AFTER_MS = 10_000;

/** P5: a tenant that was refused nearly everything is served again when it asks for what there is. */
export function forgivesWhoWasRefused(options: PromiseOptions): Finding[] {
  const floodEndsAtMs = SLOW_FROM_MS + FLOOD_MS;
  const flood = { fromMs: SLOW_FROM_MS, untilMs: floodEndsAtMs, factor: 30 };
  const runs = runSeeds(options, {
    profiles,
    workload: burst(basis, { loadRatio: 0.6, profiles: THREE_TENANTS, tenant: "chat", ...flood }),
    warmUpMs: SLOW_FROM_MS,
  });
  const ofTenant = runs.map((run) => run.of(0));
  const during = ofTenant.map((records) =>
    records.filter(({ arrivedAtMs }) => arrivedAtMs < floodEndsAtMs),
  );
  const later = ofTenant.map((records) =>
    records.filter(({ arrivedAtMs }) => arrivedAtMs >= floodEndsAtMs + FORGIVEN_AFTER_MS),
  );
  return [
    {
      what: "refused while it floods",
      value: pooledRatio(
        during.map((some) => shareOf(some, ({ verdict }) => verdict === "refused")),
      ),
      atLeast: 0.5,
    },
    {
      what: "good when that is over",
      value: pooledRatio(later.map(goodShare)),
      atLeast: 0.99,
    },
  ];
}
