import { assert } from "../base/assert.ts";
import type { Attainment, SloMetric } from "./attainment.ts";
import { SLO_METRICS } from "./attainment.ts";

/** What became of the requests of one tenant. Costs are predicted GPU-ms. */
export interface AttainmentCounts {
  offered: number;
  offeredInProfile: number;
  admitted: number;
  /** Met every target, and is what was asked for. */
  good: number;
  /** Met every target, but is not quite what was asked for. */
  degraded: number;
  missed: number;
  /** One request may miss several. */
  readonly missedBy: Record<SloMetric, number>;
  excluded: number;
  rejectedInProfile: number;
  rejectedOutOfProfile: number;
  offeredCostMs: number;
  goodCostMs: number;
}

/** One step in the life of a request. */
export type AttainmentEvent =
  | { readonly kind: "offered"; readonly isInProfile: boolean; readonly costMs: number }
  | { readonly kind: "admitted" }
  | { readonly kind: "rejected"; readonly isInProfile: boolean }
  | { readonly kind: "ended"; readonly attainment: Attainment; readonly costMs: number };

/** A ring of so many buckets of equal length. */
export interface RingSize {
  readonly bucketMs: number;
  readonly bucketsMax: number;
}

interface Bucket {
  /** `floor(instant / bucketMs)`; whatever else is in its place of the ring is over. */
  number: number;
  readonly counts: AttainmentCounts;
}

/** What an {@link AttainmentWindow} remembers: its rings, each with its buckets in place. */
export interface AttainmentWindowState {
  readonly rings: (Bucket | undefined)[][];
  /** All that was ever counted. */
  readonly total: AttainmentCounts;
  latestAtMs: number;
}

/** Five minutes in steps of five seconds, and six hours in steps of five minutes. */
const RINGS: readonly RingSize[] = [
  { bucketMs: 5_000, bucketsMax: 60 },
  { bucketMs: 300_000, bucketsMax: 72 },
];

/**
 * Counts one tenant's requests over sliding windows. An event counts when it happens, so a request
 * may be offered in one window and end in the next. Adding is O(1), a sum is linear in the buckets
 * of its window, and nothing grows.
 */
export class AttainmentWindow {
  readonly state: AttainmentWindowState;
  readonly #rings: readonly RingSize[];

  /** The rings stand in order of what they cover, the shortest first. */
  constructor(
    { rings = RINGS }: { readonly rings?: readonly RingSize[] } = {},
    state: AttainmentWindowState = {
      rings: rings.map(() => []),
      total: noCounts(),
      latestAtMs: 0,
    },
  ) {
    this.#rings = rings;
    this.state = state;
  }

  /** Counts an event. A clock that runs backwards counts into the latest bucket. */
  add(event: AttainmentEvent, nowMs: number): void {
    this.state.latestAtMs = Math.max(this.state.latestAtMs, nowMs);
    addEvent(this.state.total, event);
    for (const [index, ring] of this.#rings.entries()) {
      addEvent(this.#countsNow(index, ring), event);
    }
  }

  /** What was counted since the window was begun: it only ever grows. */
  get total(): Readonly<AttainmentCounts> {
    return this.state.total;
  }

  /**
   * Returns what was counted in the last `windowMs`, by the finest ring that reaches so far back, or
   * by the longest. It ends with the current bucket, so it is up to one bucket shorter than asked.
   */
  sum(windowMs: number, nowMs: number): AttainmentCounts {
    const found = this.#rings.findIndex((ring) => ring.bucketMs * ring.bucketsMax >= windowMs);
    const index = found === -1 ? this.#rings.length - 1 : found;
    const ring = this.#rings[index];
    const total = noCounts();
    if (ring === undefined) return total;
    const { bucketMs } = ring;
    const last = Math.floor(Math.max(nowMs, this.state.latestAtMs) / bucketMs);
    const first = last - Math.max(1, Math.round(windowMs / bucketMs)) + 1;
    for (const bucket of this.state.rings[index] ?? []) {
      if (bucket !== undefined && bucket.number >= first) addCounts(total, bucket.counts);
    }
    return total;
  }

  checkInvariants(): void {
    for (const [index, buckets] of this.state.rings.entries()) {
      const bucketsMax = this.#rings[index]?.bucketsMax ?? 0;
      assert(buckets.length <= bucketsMax, "a ring is within its bound");
      for (const [place, bucket] of buckets.entries()) {
        if (bucket === undefined) continue;
        assert(bucket.number % bucketsMax === place, "a bucket is in its place");
        const { missed, missedBy, good, goodCostMs } = bucket.counts;
        for (const metric of SLO_METRICS) {
          assert(missedBy[metric] <= missed, "a request misses a metric at most once");
        }
        assert(good > 0 || goodCostMs === 0, "no cost is good without a request");
      }
    }
  }

  #countsNow(index: number, { bucketMs, bucketsMax }: RingSize): AttainmentCounts {
    const buckets = this.state.rings[index];
    assert(buckets !== undefined, "every ring has its state");
    const number = Math.floor(this.state.latestAtMs / bucketMs);
    const place = number % bucketsMax;
    const known = buckets[place];
    if (known?.number === number) return known.counts;
    // Filled up to its place, since a list with holes reads differently once it was written down.
    while (buckets.length < place) buckets.push(undefined);
    const counts = noCounts();
    buckets[place] = { number, counts };
    return counts;
  }
}

/** Counts of which each is zero. */
export function noCounts(): AttainmentCounts {
  return {
    offered: 0,
    offeredInProfile: 0,
    admitted: 0,
    good: 0,
    degraded: 0,
    missed: 0,
    missedBy: { ttft: 0, tpot: 0, tbt: 0, e2e: 0, failed: 0 },
    excluded: 0,
    rejectedInProfile: 0,
    rejectedOutOfProfile: 0,
    offeredCostMs: 0,
    goodCostMs: 0,
  };
}

/** Adds the counts of `others`, for instance those of another tenant, to a total. */
export function addCounts(total: AttainmentCounts, others: AttainmentCounts): void {
  total.offered += others.offered;
  total.offeredInProfile += others.offeredInProfile;
  total.admitted += others.admitted;
  total.good += others.good;
  total.degraded += others.degraded;
  total.missed += others.missed;
  for (const metric of SLO_METRICS) total.missedBy[metric] += others.missedBy[metric];
  total.excluded += others.excluded;
  total.rejectedInProfile += others.rejectedInProfile;
  total.rejectedOutOfProfile += others.rejectedOutOfProfile;
  total.offeredCostMs += others.offeredCostMs;
  total.goodCostMs += others.goodCostMs;
}

function addEvent(counts: AttainmentCounts, event: AttainmentEvent): void {
  switch (event.kind) {
    case "offered":
      counts.offered += 1;
      counts.offeredCostMs += event.costMs;
      if (event.isInProfile) counts.offeredInProfile += 1;
      return;
    case "admitted":
      counts.admitted += 1;
      return;
    case "rejected":
      if (event.isInProfile) counts.rejectedInProfile += 1;
      else counts.rejectedOutOfProfile += 1;
      return;
    case "ended":
      addAttainment(counts, event.attainment, event.costMs);
  }
}

function addAttainment(counts: AttainmentCounts, attainment: Attainment, costMs: number): void {
  switch (attainment.kind) {
    case "good":
      if (attainment.isDegraded) {
        counts.degraded += 1;
      } else {
        counts.good += 1;
        counts.goodCostMs += costMs;
      }
      return;
    case "missed":
      counts.missed += 1;
      for (const metric of attainment.missed) counts.missedBy[metric] += 1;
      return;
    case "excluded":
      counts.excluded += 1;
  }
}
