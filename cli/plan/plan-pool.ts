import { drawSeed, seededRandom } from "../../src/base/random.ts";
import { binomialInterval } from "../../src/slo/binomial.ts";
import type { HardwareProfile } from "../../simulator/hardware-profile.ts";
import { runExperiment } from "../../simulator/experiment.ts";
import type { Score } from "../../simulator/scorecard.ts";
import type { ArrivalSpec } from "../../simulator/workloads/arrival.ts";
import type { TenantProfile } from "../../simulator/workloads/tenant-profile.ts";
import type { RequestNotes } from "./request-tally.ts";
import { RequestTally } from "./request-tally.ts";

/** A tenant as it is planned for. */
export interface PlannedTenant {
  readonly profile: TenantProfile;
  /** Requests a second; of a trace its mean. */
  readonly ratePerSecond: number;
}

/** How far a plan has come: which run of which size, and how much of its time is over. */
export interface PlanProgress {
  readonly replicas: number;
  readonly seed: number;
  readonly doneRatio: number;
}

export interface PlanOptions {
  readonly tenants: readonly PlannedTenant[];
  readonly hardware: HardwareProfile;
  readonly replicas: number;
  readonly seeds: number;
  readonly warmUpMs: number;
  readonly measuredMs: number;
  /** Requests of a recorded trace instead of drawn ones. */
  readonly createArrivals?: () => Iterable<ArrivalSpec>;
  /** Is told of each request that has ended how far the run has come. */
  readonly onProgress?: (progress: PlanProgress) => void;
}

/** What one tenant gets of a pool of some size. */
interface PlannedOutcome extends RequestNotes {
  readonly name: string;
  /** All that arrived in the time that counts, those that never ended among them. */
  readonly offered: number;
  readonly refused: number;
  readonly refusedRatio: number;
  /** Of what was admitted and ended; `null`: nothing was. */
  readonly attainmentRatio: number | null;
  readonly attainmentInterval: readonly [number, number] | null;
  readonly goodPerSecond: number;
  readonly ttftP99Ms: number | null;
  readonly tpotP99Ms: number | null;
  /**
   * Whether its promise holds: as much in time as was promised, and as little refused, or without an end, as may be.
   * `null`: nothing was offered, so nobody can say.
   */
  readonly isKept: boolean | null;
}

/** A pool of some size, and what all its tenants get of it. */
export interface PlannedPool {
  readonly replicas: number;
  readonly cells: number;
  /** Whether every promise is kept of those whose tenants offered something, and there are such. */
  readonly isKept: boolean;
  readonly goodPerSecond: number;
  readonly tenants: readonly PlannedOutcome[];
}

/** A pool of more is planned as cells of at most so many, each with its part of the traffic. */
const CELL_REPLICAS_MAX = 16;

/** Simulates a pool with the production core, and counts what each tenant gets. */
export function planPool(options: PlanOptions, refusedRatioMax: number): PlannedPool {
  const { tenants, replicas, seeds, warmUpMs, measuredMs, hardware, onProgress } = options;
  const cells = Math.ceil(replicas / CELL_REPLICAS_MAX);
  const ofCell = Math.ceil(replicas / cells);
  const part = ofCell / replicas;
  const profiles = Array.from({ length: ofCell }, () => hardware);
  const workload = {
    tenants: tenants.map(({ profile, ratePerSecond }) => ({
      profile,
      startsPerSecond: ratePerSecond * part,
      rateShapes: [],
    })),
  };
  const untilMs = warmUpMs + measuredMs;
  const scores: Score[][] = [];
  const tally = new RequestTally({ tenants: tenants.length, hardware, fromMs: warmUpMs, untilMs });
  for (let seed = 1; seed <= seeds; seed += 1) {
    const arrivals = options.createArrivals;
    let doneRatio = 0;
    const { scorecard, simulation } = runExperiment({
      seed,
      profiles,
      workload,
      warmUpMs,
      measuredMs,
      engine: { keepsTbt: true },
      onRecord: (record) => {
        const { arrivedAtMs } = record;
        tally.add(record);
        // They end in another order than they came in.
        doneRatio = Math.max(doneRatio, Math.min(1, arrivedAtMs / untilMs));
        onProgress?.({ replicas, seed, doneRatio });
      },
      ...(arrivals !== undefined && {
        createArrivals: () => thinned(arrivals(), { part, seed, untilMs }),
      }),
    });
    for (const { options: call } of simulation.gateway.calls()) tally.addUnended(call);
    scores.push(scorecard.tenants);
  }
  const seconds = (seeds * measuredMs * part) / 1000;
  const outcomes = tenants.map(({ profile }, index) =>
    outcomeOf(
      profile,
      scores.flatMap((own) => own[index] ?? []),
      { seconds, refusedRatioMax, notes: tally.notesOf(index) },
    ),
  );
  return {
    replicas,
    cells,
    isKept:
      outcomes.every(({ isKept }) => isKept !== false) && outcomes.some(({ isKept }) => isKept),
    goodPerSecond: outcomes.reduce((sum, { goodPerSecond }) => sum + goodPerSecond, 0),
    tenants: outcomes,
  };
}

/** Each request goes to one cell: a cell sees its part of them, drawn by chance. */
function* thinned(
  arrivals: Iterable<ArrivalSpec>,
  {
    part,
    seed,
    untilMs,
  }: { readonly part: number; readonly seed: number; readonly untilMs: number },
): Generator<ArrivalSpec> {
  const random = seededRandom(drawSeed(seededRandom(seed)));
  for (const arrival of arrivals) {
    if (arrival.atMs >= untilMs) return;
    if (part >= 1 || random() < part) yield arrival;
  }
}

function outcomeOf(
  { name, targets }: TenantProfile,
  scores: readonly Score[],
  {
    seconds,
    refusedRatioMax,
    notes,
  }: { readonly seconds: number; readonly refusedRatioMax: number; readonly notes: RequestNotes },
): PlannedOutcome {
  const sum = (read: (score: Score) => number) =>
    scores.reduce((total, score) => total + read(score), 0);
  const offered = sum(({ counts }) => counts.offered) + notes.unended;
  const refused = sum(({ counts }) => counts.rejectedInProfile + counts.rejectedOutOfProfile);
  const good = sum(({ counts }) => counts.good);
  const judged = good + sum(({ counts }) => counts.missed);
  const refusedRatio = offered === 0 ? 0 : refused / offered;
  const attainmentRatio = judged === 0 ? null : good / judged;
  const promisedRatio = Math.max(
    ...[targets.ttft, targets.tpot, targets.e2e].map((each) => each?.percentileRatio ?? 0),
  );
  const isKept =
    refusedRatio <= refusedRatioMax &&
    notes.unended <= refusedRatioMax * offered &&
    (attainmentRatio ?? 0) >= promisedRatio;
  return {
    ...notes,
    name,
    offered,
    refused,
    refusedRatio,
    attainmentRatio,
    attainmentInterval: judged === 0 ? null : binomialInterval(good, judged),
    goodPerSecond: good / seconds,
    ttftP99Ms: worst(scores.map(({ ttftMs }) => ttftMs.quantile(0.99))),
    tpotP99Ms: worst(scores.map(({ tpotMs }) => tpotMs.quantile(0.99))),
    isKept: offered === 0 ? null : isKept,
  };
}

/** Of several runs the worst; `null` where there is none, or no end of it. */
function worst(values: readonly (number | undefined)[]): number | null {
  const most = Math.max(...values.filter((value) => value !== undefined));
  return Number.isFinite(most) ? most : null;
}
