import { assert } from "./assert.ts";

/** What a {@link QuantileSketch} has counted. */
export interface QuantileSketchState {
  /** By bucket index i: values in (γ^(i−1), γ^i]. */
  readonly countByBucket: Map<number, number>;
  /** Values too small for a bucket. */
  zeroCount: number;
  infiniteCount: number;
}

/** Smaller values count as zero. */
const VALUE_MIN = 1e-9;
/** At 1 % enough for 17 decimal orders of magnitude. */
const BUCKETS_MAX = 2_048;

/**
 * Quantiles of non-negative numbers, `Infinity` among them, within a relative error (DDSketch,
 * VLDB 2019). Sketches of equal error merge without loss. When there are too many buckets the lowest
 * ones fall together, so high quantiles, which promises are about, stay exact to the error.
 */
export class QuantileSketch {
  readonly state: QuantileSketchState;
  readonly #gamma: number;
  readonly #logGamma: number;
  readonly #bucketsMax: number;
  #count: number;

  constructor(
    options: { readonly errorRatio?: number; readonly bucketsMax?: number } = {},
    state: QuantileSketchState = { countByBucket: new Map(), zeroCount: 0, infiniteCount: 0 },
  ) {
    const { errorRatio = 0.01, bucketsMax = BUCKETS_MAX } = options;
    this.#gamma = (1 + errorRatio) / (1 - errorRatio);
    this.#logGamma = Math.log(this.#gamma);
    this.#bucketsMax = bucketsMax;
    this.state = state;
    this.#count = countOf(state);
  }

  /** How many values were added. */
  get count(): number {
    return this.#count;
  }

  /** Adds a value. */
  add(value: number): void {
    assert(value >= 0, "a value is a number that is not negative");
    this.#count += 1;
    if (value === Number.POSITIVE_INFINITY) this.state.infiniteCount += 1;
    else if (value < VALUE_MIN) this.state.zeroCount += 1;
    else this.#addTo(Math.ceil(Math.log(value) / this.#logGamma), 1);
  }

  /** Adds all that another sketch of the same error has counted; the other one stays as it is. */
  merge(other: QuantileSketch): void {
    assert(other.#gamma === this.#gamma, "only sketches of one error merge");
    this.#count += other.#count;
    this.state.zeroCount += other.state.zeroCount;
    this.state.infiniteCount += other.state.infiniteCount;
    for (const [bucket, count] of other.state.countByBucket) this.#addTo(bucket, count);
  }

  /** Returns the value of rank ⌊ratio × (count − 1)⌋, counted from 0; `undefined` without values. */
  quantile(ratio: number): number | undefined {
    assert(ratio >= 0 && ratio <= 1, "a quantile is in 0–1");
    if (this.#count === 0) return undefined;
    const rank = Math.floor(ratio * (this.#count - 1));
    let counted = this.state.zeroCount;
    if (rank < counted) return 0;
    for (const [bucket, count] of [...this.state.countByBucket].toSorted(([a], [b]) => a - b)) {
      counted += count;
      // The value whose relative distance to both ends of the bucket is the same.
      if (rank < counted) return (2 * this.#gamma ** bucket) / (this.#gamma + 1);
    }
    return Number.POSITIVE_INFINITY;
  }

  checkInvariants(): void {
    const { countByBucket } = this.state;
    assert(countByBucket.size <= this.#bucketsMax, "the buckets are within their bound");
    assert(this.#count === countOf(this.state), "every value is counted once");
    for (const count of countByBucket.values()) assert(count > 0, "no bucket is empty");
  }

  #addTo(bucket: number, count: number): void {
    const { countByBucket } = this.state;
    countByBucket.set(bucket, (countByBucket.get(bucket) ?? 0) + count);
    if (countByBucket.size <= this.#bucketsMax) return;
    let lowest = Number.POSITIVE_INFINITY;
    let second = Number.POSITIVE_INFINITY;
    for (const key of countByBucket.keys()) {
      if (key < lowest) [lowest, second] = [key, lowest];
      else if (key < second) second = key;
    }
    const moved = countByBucket.get(lowest) ?? 0;
    countByBucket.delete(lowest);
    countByBucket.set(second, (countByBucket.get(second) ?? 0) + moved);
  }
}

function countOf({ countByBucket, zeroCount, infiniteCount }: QuantileSketchState): number {
  let count = zeroCount + infiniteCount;
  for (const bucketCount of countByBucket.values()) count += bucketCount;
  return count;
}
