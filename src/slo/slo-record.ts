import { assert } from "../base/assert.ts";
import type { RingSize } from "./attainment-window.ts";
import type { SloCounts, SloEvent } from "./slo-counts.ts";
import { addSloCounts, countEvent, noSloCounts } from "./slo-counts.ts";

/** The minutes of an hour, and the hours of thirty days. */
const RINGS: readonly RingSize[] = [
  { bucketMs: 60_000, bucketsMax: 60 },
  { bucketMs: 3_600_000, bucketsMax: 720 },
];

/** Over how long a report tells what became of requests. */
export const SLO_WINDOWS = [
  { name: "5m", windowMs: 300_000 },
  { name: "1h", windowMs: 3_600_000 },
  { name: "30d", windowMs: 2_592_000_000 },
] as const;
export type SloWindowName = (typeof SLO_WINDOWS)[number]["name"];

/** Classes told apart; a tenant may have nine at once, and had others before. */
export const SLO_CLASSES_MAX = 16;

/** One stretch of time, and where it has its place. */
export interface SloBucket {
  readonly className: string;
  readonly ring: number;
  readonly place: number;
  /** `floor(instant / bucketMs)`; whatever else is in its place is over. */
  readonly number: number;
  readonly counts: SloCounts;
}

/** One class over each window, the shortest first. */
export interface SloSums {
  readonly className: string;
  readonly windows: readonly SloCounts[];
}

/**
 * What became of a tenant's requests, class by class, for thirty days. Counting is O(1), a sum is linear in
 * the buckets of its window, and nothing grows: a bucket takes the place of one that is over. What has
 * changed is told, so that it can be stored bucket by bucket.
 */
export class SloRecord {
  readonly #rings = new Map<string, Map<number, SloBucket>[]>();
  readonly #changed = new Set<SloBucket>();
  #latestAtMs = 0;

  /** Puts a record together again; of two buckets for one place the later one stays. */
  constructor(stored: Iterable<SloBucket> = []) {
    for (const bucket of stored) {
      const size = RINGS[bucket.ring];
      if (size === undefined || bucket.number % size.bucketsMax !== bucket.place) continue;
      this.#latestAtMs = Math.max(this.#latestAtMs, bucket.number * size.bucketMs);
      const ring = this.#ringsOf(bucket.className)[bucket.ring];
      if ((ring?.get(bucket.place)?.number ?? -1) < bucket.number) ring?.set(bucket.place, bucket);
    }
  }

  /** Counts a request of a class. A clock that runs backwards counts into the latest bucket. */
  count(className: string, event: SloEvent, nowMs: number): void {
    this.#latestAtMs = Math.max(this.#latestAtMs, nowMs);
    const rings = this.#ringsOf(className);
    // The class used last is the last to be forgotten.
    this.#rings.delete(className);
    this.#rings.set(className, rings);
    for (const [index, size] of RINGS.entries()) {
      const bucket = this.#bucketNow(className, index, size);
      countEvent(bucket.counts, event);
      this.#changed.add(bucket);
    }
  }

  /** What was counted of each class in each window; each ends with the bucket that has begun. */
  sums(nowMs: number): SloSums[] {
    const atMs = Math.max(nowMs, this.#latestAtMs);
    return [...this.#rings].map(([className, rings]) => ({
      className,
      windows: SLO_WINDOWS.map(({ windowMs }) => sumOf(rings, windowMs, atMs)),
    }));
  }

  /** The buckets that have changed since this was asked last. */
  takeChanged(): SloBucket[] {
    const changed = [...this.#changed];
    this.#changed.clear();
    return changed;
  }

  checkInvariants(): void {
    assert(this.#rings.size <= SLO_CLASSES_MAX, "the classes are within their bound");
    for (const rings of this.#rings.values()) {
      for (const [index, ring] of rings.entries()) {
        const bucketsMax = RINGS[index]?.bucketsMax ?? 0;
        assert(ring.size <= bucketsMax, "a ring is within its bound");
        for (const [place, { number }] of ring) {
          assert(number % bucketsMax === place, "a bucket is in its place");
        }
      }
    }
  }

  #ringsOf(className: string): Map<number, SloBucket>[] {
    const known = this.#rings.get(className);
    if (known !== undefined) return known;
    const [oldest] = this.#rings.keys();
    if (this.#rings.size >= SLO_CLASSES_MAX && oldest !== undefined) this.#rings.delete(oldest);
    const rings = RINGS.map(() => new Map<number, SloBucket>());
    this.#rings.set(className, rings);
    return rings;
  }

  #bucketNow(className: string, index: number, { bucketMs, bucketsMax }: RingSize): SloBucket {
    const number = Math.floor(this.#latestAtMs / bucketMs);
    const place = number % bucketsMax;
    const ring = this.#rings.get(className)?.[index];
    assert(ring !== undefined, "every class has its rings");
    const known = ring.get(place);
    if (known?.number === number) return known;
    const bucket = { className, ring: index, place, number, counts: noSloCounts() };
    ring.set(place, bucket);
    return bucket;
  }
}

/** By the finest ring that reaches so far back. */
function sumOf(
  rings: readonly ReadonlyMap<number, SloBucket>[],
  windowMs: number,
  atMs: number,
): SloCounts {
  const index = RINGS.findIndex((size) => size.bucketMs * size.bucketsMax >= windowMs);
  const sum = noSloCounts();
  const [ring, size] = [rings[index], RINGS[index]];
  if (ring === undefined || size === undefined) return sum;
  const last = Math.floor(atMs / size.bucketMs);
  const first = last - Math.round(windowMs / size.bucketMs) + 1;
  for (const { number, counts } of ring.values()) {
    if (number >= first && number <= last) addSloCounts(sum, counts);
  }
  return sum;
}
