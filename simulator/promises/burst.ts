import type { ClientBehaviour } from "../client.ts";
import { PATIENT_CLIENTS } from "../client.ts";
import type { RateShape } from "../workloads/rate-shape.ts";
import { steady } from "../workloads/scenarios.ts";
import type { Workload } from "../workloads/workload.ts";
import { costMsOf } from "./cost.ts";
import type { Finding } from "./finding.ts";
import type { PromiseOptions } from "./run.ts";
import { runSeeds } from "./run.ts";
import { admittedShare, goodShare, keptShare, missedShare, pooledRatio } from "./shares.ts";
import { smallPool, THREE_TENANTS } from "./small-pool.ts";

const WARM_UP_MS = 8_000;
const CALM_LOAD_RATIO = 0.8;
const BURST_LOAD_RATIO = 3;
const BURST_MS = 5_000;
const BURST_ENDS_AT_MS = WARM_UP_MS + BURST_MS;
/** The tightest of the TTFT targets. */
const RECOVERY_MS = 400;
/** How long it is seen whether all is well again: the burst's own requests hold slots for as long. */
const AFTERMATH_MS = 3_000;

const { profiles, basis } = smallPool();

/** Everybody asks for three times what is sustainable at once, and then for four fifths of it. */
function burstWorkload(): Workload {
  const { tenants } = steady(basis, { loadRatio: CALM_LOAD_RATIO, profiles: THREE_TENANTS });
  const shape: RateShape = {
    kind: "window",
    fromMs: WARM_UP_MS,
    untilMs: BURST_ENDS_AT_MS,
    factor: BURST_LOAD_RATIO / CALM_LOAD_RATIO,
  };
  return { tenants: tenants.map((traffic) => ({ ...traffic, rateShapes: [shape] })) };
}

/** P9: who comes one target after a burst is served as if there had been none. */
export function recoversFromABurst(options: PromiseOptions): Finding[] {
  const workload = burstWorkload();
  const runs = runSeeds(options, { profiles, workload, warmUpMs: WARM_UP_MS });
  const later = runs.map(({ records }) =>
    records.filter(({ arrivedAtMs }) => {
      const afterMs = arrivedAtMs - BURST_ENDS_AT_MS;
      return afterMs >= RECOVERY_MS && afterMs < RECOVERY_MS + AFTERMATH_MS;
    }),
  );
  return [
    {
      what: "good of what was offered in the seconds behind a burst",
      value: pooledRatio(later.map(goodShare)),
      atLeast: 0.99,
    },
    {
      what: "promises kept then",
      value: pooledRatio(later.map(keptShare)),
      atLeast: 0.99,
    },
  ];
}

const WHO_RETRY: ClientBehaviour = { ...PATIENT_CLIENTS, retriesMax: 1, retry: "as-told" };

/** P3: who was refused in a burst and comes back when told to is admitted then. */
export function admitsWhoComesBackAsTold(
  options: PromiseOptions,
  retry: ClientBehaviour["retry"] = "as-told",
): Finding[] {
  const workload = burstWorkload();
  const clients = { ...WHO_RETRY, retry };
  const runs = runSeeds(options, { profiles, workload, warmUpMs: WARM_UP_MS, clients });
  const retries = runs.map(({ records }) => records.filter(({ tryNumber }) => tryNumber > 1));
  return [
    {
      what: "refused by the burst",
      value: retries.reduce((sum, records) => sum + records.length, 0),
      atLeast: 50 * options.seeds,
    },
    {
      what: "admitted of those who came back",
      value: pooledRatio(retries.map(admittedShare)),
      atLeast: 0.95,
    },
  ];
}

/** P3: engines do no work for what is refused, and next to none for what turns out too late. */
export function wastesNoWork(options: PromiseOptions): Finding[] {
  const workload = burstWorkload();
  const runs = runSeeds(options, { profiles, workload, warmUpMs: WARM_UP_MS });
  const records = runs.flatMap((run) => run.records);
  const refused = records.filter(({ verdict }) => verdict === "refused");
  const served = records.filter(({ verdict }) => verdict === "admitted");
  const late = served.filter(({ attainment }) => attainment.kind === "missed");
  return [
    { what: "refused", value: refused.length, atLeast: 50 * options.seeds },
    {
      what: "refused after a token",
      value: refused.filter(({ timeline }) => timeline.outputTokens > 0).length,
      atMost: 0,
    },
    {
      what: "refused after it was sent somewhere and not displaced from there",
      value: refused.filter(({ dispatches }) => dispatches > 1).length,
      atMost: 0,
    },
    {
      what: "of all work that for late answers",
      value: costMsOf(late, basis) / costMsOf(served, basis),
      atMost: 0.01,
    },
  ];
}

/** P3: under an overload that lasts, who keeps to its guarantee is admitted, and in time. */
export function admitsTheGuaranteedUnderLastingOverload(options: PromiseOptions): Finding[] {
  const calm = steady(basis, { loadRatio: 0.45, profiles: THREE_TENANTS });
  const [first, ...others] = calm.tenants;
  const flood = others.map((traffic) => ({
    ...traffic,
    startsPerSecond: traffic.startsPerSecond * 6,
  }));
  const workload = { tenants: first === undefined ? flood : [first, ...flood] };
  const clients = { ...WHO_RETRY, retriesMax: 3 };
  const runs = runSeeds(options, { profiles, workload, warmUpMs: 2 * WARM_UP_MS, clients });
  const ofFirst = runs.map((run) => run.of(0));
  return [
    {
      what: "kept to who keeps to its guarantee",
      value: pooledRatio(ofFirst.map(keptShare)),
      atLeast: 0.999,
    },
    { what: "missed of it", value: pooledRatio(ofFirst.map(missedShare)), atMost: 0.01 },
  ];
}
