import { seededRandom } from "../../src/base/random.ts";
import { meanUpperBound } from "../bootstrap.ts";
import type { RequestRecord } from "../request-record.ts";
import { noisyNeighbour, poisoned, runawayAnswers, steady } from "../workloads/scenarios.ts";
import type { Window, Workload } from "../workloads/workload.ts";
import type { Finding } from "./finding.ts";
import type { PromiseOptions, SeedRun } from "./run.ts";
import { runSeeds } from "./run.ts";
import { goodShare, keptShare, pooledRatio } from "./shares.ts";
import { smallPool, THREE_TENANTS } from "./small-pool.ts";

/** Where all is within the guarantees, bursts included. */
const GUARANTEED_LOAD_RATIO = 0.45;
/** Where there is little to spare. */
const HIGH_LOAD_RATIO = 0.9;
const NOISY_FACTOR = 20;
const WARM_UP_MS = 12_000;
const LOSS_RATIO_MAX = 0.005;
/** The tenant that is noisy, or burns. */
const FIRST = "chat";
const RUNAWAY_FACTOR = 4;
/** Behind its trouble the burning tenant's guarantee has to fill again, and its last answers to end. */
const RECOVERY_MS = 15_000;

const { profiles, basis } = smallPool();
const settingsAt = (loadRatio: number) => ({ loadRatio, profiles: THREE_TENANTS, tenant: FIRST });

/** P8: one tenant asks for twenty times its part, and the others have what they have without it. */
export function othersKeepTheirsBesideTheNoisy(options: PromiseOptions): Finding[] {
  const settings = settingsAt(GUARANTEED_LOAD_RATIO);
  const noisy = noisyNeighbour(basis, { ...settings, factor: NOISY_FACTOR });
  return compare(options, steady(basis, settings), noisy).losses;
}

/** P6: every request of one tenant fails for a while, at whatever replica. */
export function othersKeepTheirsBesideTheFailing(options: PromiseOptions): Finding[] {
  return burn(options, (window) => poisoned(basis, { ...HIGH, ...window }));
}

/** P6: one tenant's answers are much longer for a while, which nothing in its requests foretells. */
export function othersKeepTheirsBesideTheRunaway(options: PromiseOptions): Finding[] {
  return burn(options, (window) =>
    runawayAnswers(basis, { ...HIGH, ...window, factor: RUNAWAY_FACTOR }),
  );
}

const HIGH = settingsAt(HIGH_LOAD_RATIO);
const STEADY_HIGH = steady(basis, HIGH);

function burn(options: PromiseOptions, workloadOf: (window: Window) => Workload): Finding[] {
  const fromMs = WARM_UP_MS + options.measuredMs / 4;
  const untilMs = WARM_UP_MS + options.measuredMs / 2;
  const { losses, beside } = compare(options, STEADY_HIGH, workloadOf({ fromMs, untilMs }));
  const ratioOf = (share: typeof keptShare, from: number, until: number) =>
    pooledRatio(beside.map((run) => share(arrivedIn(run.of(0), from, until))));
  return [
    // Of all that it asks for: what it is refused beyond its guarantee is a part of its trouble.
    {
      what: `good to ${FIRST} while it burns`,
      value: ratioOf(goodShare, fromMs, untilMs),
      atMost: 0.95,
    },
    {
      what: `kept to ${FIRST} when it is over`,
      value: ratioOf(keptShare, untilMs + RECOVERY_MS, Infinity),
      atLeast: 0.99,
    },
    ...losses,
  ];
}

/**
 * Runs a workload with and without what happens to its first tenant, seed by seed. Of every other tenant, by
 * how much a smaller share of what it was promised is kept.
 */
function compare(options: PromiseOptions, without: Workload, workload: Workload) {
  const alone = runAlone(options, without);
  const beside = runSeeds(options, { ...EXPERIMENT, workload });
  const losses = THREE_TENANTS.slice(1).map(({ name }, place): Finding => {
    const lost = alone.map((run, index) => {
      const other = beside[index];
      return other === undefined ? 1 : keptOf(run, place + 1) - keptOf(other, place + 1);
    });
    const value = meanUpperBound(lost, { random: seededRandom(1) });
    return { what: `kept promises that ${name} loses`, value, atMost: LOSS_RATIO_MAX };
  });
  return { losses, beside };
}

const EXPERIMENT = { profiles, warmUpMs: WARM_UP_MS };
const runsAlone = new WeakMap<Workload, Map<string, readonly SeedRun[]>>();

/** The same for whatever a workload is held against, so it is run once. */
function runAlone(options: PromiseOptions, workload: Workload): readonly SeedRun[] {
  const known = runsAlone.get(workload) ?? new Map<string, readonly SeedRun[]>();
  runsAlone.set(workload, known);
  const name = JSON.stringify(options);
  const runs = known.get(name) ?? runSeeds(options, { ...EXPERIMENT, workload });
  known.set(name, runs);
  return runs;
}

function keptOf(run: SeedRun, tenantIndex: number): number {
  return pooledRatio([keptShare(run.of(tenantIndex))]);
}

function arrivedIn(
  records: readonly RequestRecord[],
  fromMs: number,
  untilMs: number,
): RequestRecord[] {
  return records.filter(({ arrivedAtMs }) => arrivedAtMs >= fromMs && arrivedAtMs < untilMs);
}
