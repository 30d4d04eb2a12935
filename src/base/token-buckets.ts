/** How much may come from one name. */
export interface BucketRate {
  /** At once, after a pause. */
  readonly burst: number;
  readonly perSecond: number;
}

interface Bucket {
  level: number;
  atMs: number;
}

/** Limits what comes by name: a bucket of tokens for each, and no more buckets than there may be. */
export class TokenBuckets {
  readonly #rate: BucketRate;
  readonly #bucketsMax: number;
  /** The bucket that was used longest ago first. */
  readonly #buckets = new Map<string, Bucket>();

  constructor(rate: BucketRate, bucketsMax: number) {
    this.#rate = rate;
    this.#bucketsMax = bucketsMax;
  }

  /** Takes a token, or returns in how many milliseconds there is one. */
  take(name: string, nowMs: number): number | undefined {
    const { burst, perSecond } = this.#rate;
    const { level, atMs } = this.#buckets.get(name) ?? { level: burst, atMs: nowMs };
    const passedMs = Math.max(0, nowMs - atMs);
    const filled = Math.min(burst, level + (passedMs * perSecond) / 1000);
    const isFree = filled >= 1;
    this.#buckets.delete(name);
    this.#buckets.set(name, { level: isFree ? filled - 1 : filled, atMs: Math.max(atMs, nowMs) });
    this.#forgetOldest();
    return isFree ? undefined : ((1 - filled) * 1000) / perSecond;
  }

  /** A name that is forgotten has a full bucket again; who needs many names must not have them for nothing. */
  #forgetOldest(): void {
    if (this.#buckets.size <= this.#bucketsMax) return;
    const oldest = this.#buckets.keys().next();
    if (oldest.done !== true) this.#buckets.delete(oldest.value);
  }
}
