import type { CostBucketState, CostProfile } from "./cost-bucket.ts";
import { CostBucket, costProfile } from "./cost-bucket.ts";

/** What a {@link GuaranteeBucket} remembers. */
export interface GuaranteeBucketState {
  readonly burst: CostBucketState;
  readonly steady: CostBucketState;
}

/** What a tenant is granted of a pool, and what the pool has to grant; GPU-ms a ms. */
export interface GuaranteeRates {
  readonly rateMsPerMs: number;
  readonly poolRateMsPerMs: number;
  /** Which share of the usual burst may come at once; 1 when absent. */
  readonly burstRatio?: number;
}

/** So much may come at once whoever else comes. */
const STEADY_PERIOD_MS = 2_000;
/** So much of the whole pool's time may be claimed at once by all. */
const JOINT_PERIOD_MS = 2_000;

/**
 * What a tenant is guaranteed: its rate, of which two seconds may come at once, and ten as long as not
 * everybody's do.
 *
 * Bursts are promised as a bank promises its deposits: each tenant's fits, all of them together are
 * seconds of a pool that has none to spare. So what goes beyond two seconds also has to fit in a bucket
 * that all share and that holds two seconds of the pool. What does not is excess: it is served if
 * there is room, and takes none from those within their rate.
 */
export class GuaranteeBucket {
  readonly state: GuaranteeBucketState;
  readonly #burst: CostBucket;
  readonly #steady: CostBucket;
  readonly #joint: CostBucket;

  /** `joint` is the one bucket of all tenants of the pool. */
  constructor(joint: CostBucket, state: GuaranteeBucketState = emptyGuaranteeBucket()) {
    this.state = state;
    this.#joint = joint;
    this.#burst = new CostBucket(state.burst);
    this.#steady = new CostBucket(state.steady);
  }

  /** Takes a request's cost if it is within what is guaranteed. */
  take(costMs: number, rates: GuaranteeRates, nowMs: number): boolean {
    const { burst, steady, joint } = profilesOf(rates);
    const isSteady = this.#steady.covers(costMs, steady, nowMs);
    if (!isSteady && !this.#joint.covers(costMs, joint, nowMs)) return false;
    if (!this.#burst.take(costMs, burst, nowMs)) return false;
    // What came as a burst is no debt of the rate, and what came by right none of the others.
    if (!isSteady || !this.#steady.take(costMs, steady, nowMs)) {
      this.#steady.exhaust(costMs, steady, nowMs);
    }
    this.#joint.exhaust(costMs, joint, nowMs);
    return true;
  }

  /** A request that was within it cost so much more, or less, than it took. */
  correct(deltaMs: number, rates: GuaranteeRates, nowMs: number): void {
    const { burst, steady, joint } = profilesOf(rates);
    this.#burst.correct(deltaMs, burst, nowMs);
    this.#steady.correct(deltaMs, steady, nowMs);
    this.#joint.correct(deltaMs, joint, nowMs);
  }

  /** How long until `take` says yes if nobody takes before; `Infinity` where nothing is granted. */
  inProfileAfterMs(costMs: number, rates: GuaranteeRates, nowMs: number): number {
    const { burst, steady, joint } = profilesOf(rates);
    return Math.max(
      this.#burst.inProfileAfterMs(costMs, burst, nowMs),
      Math.min(
        this.#steady.inProfileAfterMs(costMs, steady, nowMs),
        this.#joint.inProfileAfterMs(costMs, joint, nowMs),
      ),
    );
  }
}

/** Nothing is taken yet. */
export function emptyGuaranteeBucket(): GuaranteeBucketState {
  return { burst: new CostBucket().state, steady: new CostBucket().state };
}

interface Profiles {
  readonly burst: CostProfile;
  readonly steady: CostProfile;
  readonly joint: CostProfile;
}

function profilesOf({ rateMsPerMs, poolRateMsPerMs, burstRatio = 1 }: GuaranteeRates): Profiles {
  const burst = costProfile(rateMsPerMs);
  return {
    burst: { ...burst, burstMs: burstRatio * burst.burstMs },
    steady: costProfile(rateMsPerMs, STEADY_PERIOD_MS),
    joint: costProfile(poolRateMsPerMs, JOINT_PERIOD_MS),
  };
}
