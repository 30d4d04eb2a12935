import { QuantileSketch } from "../src/base/quantile-sketch.ts";
import type { SloMetric } from "../src/slo/attainment.ts";
import type { AttainmentCounts } from "../src/slo/attainment-window.ts";
import { TPOT_TOKENS_MIN } from "../src/slo/deadlines.ts";
import type { Goodput } from "../src/slo/goodput.ts";
import { toGoodput } from "../src/slo/goodput.ts";
import type { RequestRecord } from "./request-record.ts";

/** What became of one tenant's requests, or of everybody's. */
export interface Score {
  readonly name: string;
  readonly counts: AttainmentCounts;
  readonly goodput: Goodput;
  /** Of admitted streams; those without a first token count as `Infinity`. */
  readonly ttftMs: QuantileSketch;
  readonly tpotMs: QuantileSketch;
  /** No verdict: the client left before, or the pool was gone. */
  readonly unserved: number;
}

interface Tally {
  readonly name: string;
  readonly counts: Mutable<AttainmentCounts>;
  readonly ttftMs: QuantileSketch;
  readonly tpotMs: QuantileSketch;
  unserved: number;
}

type Mutable<Type> = { -readonly [Key in keyof Type]: Type[Key] };

export interface ScorecardOptions {
  readonly tenantNames: readonly string[];
  /** What of a run counts: requests that arrived in this window. */
  readonly fromMs: number;
  readonly untilMs: number;
  /** The cost of a request by which goodput is weighed: the same under every policy. */
  readonly priceOf: (record: RequestRecord) => number;
}

/** Counts how requests ended, by tenant, with the product's own definitions of good. */
export class Scorecard {
  readonly #options: ScorecardOptions;
  readonly #tenants: readonly Tally[];
  readonly #total = newTally("total");

  constructor(options: ScorecardOptions) {
    this.#options = options;
    this.#tenants = options.tenantNames.map(newTally);
  }

  /** Adds a request that has ended; one from outside the window does not count. */
  add(record: RequestRecord): void {
    const { fromMs, untilMs, priceOf } = this.#options;
    if (record.arrivedAtMs < fromMs || record.arrivedAtMs >= untilMs) return;
    const costMs = priceOf(record);
    const tenant = this.#tenants[record.spec.tenantIndex];
    if (tenant !== undefined) addTo(tenant, record, costMs);
    addTo(this.#total, record, costMs);
  }

  get tenants(): Score[] {
    return this.#tenants.map((tally) => this.#toScore(tally));
  }

  get total(): Score {
    return this.#toScore(this.#total);
  }

  #toScore(tally: Tally): Score {
    const { fromMs, untilMs } = this.#options;
    return { ...tally, goodput: toGoodput(tally.counts, untilMs - fromMs) };
  }
}

function addTo(tally: Tally, record: RequestRecord, costMs: number): void {
  const { counts } = tally;
  counts.offered += 1;
  counts.offeredCostMs += costMs;
  if (record.isInProfile === true) counts.offeredInProfile += 1;
  switch (record.verdict) {
    case "unserved":
      tally.unserved += 1;
      break;
    case "refused":
      if (record.isInProfile === true) counts.rejectedInProfile += 1;
      else counts.rejectedOutOfProfile += 1;
      break;
    case "admitted":
      counts.admitted += 1;
      addAdmitted(tally, record, costMs);
      break;
  }
}

function addAdmitted(tally: Tally, record: RequestRecord, costMs: number): void {
  const { counts } = tally;
  const { attainment, timeline } = record;
  if (timeline.isStreamed && attainment.kind !== "excluded") {
    tally.ttftMs.add(timeline.ttftMs ?? Infinity);
  }
  if (timeline.decodeMs !== undefined && timeline.outputTokens >= TPOT_TOKENS_MIN) {
    tally.tpotMs.add(timeline.decodeMs / (timeline.outputTokens - 1));
  }
  if (attainment.kind === "excluded") counts.excluded += 1;
  else if (attainment.kind === "missed") {
    counts.missed += 1;
    for (const metric of attainment.missed) counts.missedBy[metric] += 1;
  } else if (attainment.isDegraded) counts.degraded += 1;
  else {
    counts.good += 1;
    counts.goodCostMs += costMs;
  }
}

function newTally(name: string): Tally {
  return {
    name,
    counts: {
      offered: 0,
      offeredInProfile: 0,
      admitted: 0,
      good: 0,
      degraded: 0,
      missed: 0,
      missedBy: { ttft: 0, tpot: 0, tbt: 0, e2e: 0, failed: 0 } satisfies Record<SloMetric, number>,
      excluded: 0,
      rejectedInProfile: 0,
      rejectedOutOfProfile: 0,
      offeredCostMs: 0,
      goodCostMs: 0,
    },
    ttftMs: new QuantileSketch(),
    tpotMs: new QuantileSketch(),
    unserved: 0,
  };
}
