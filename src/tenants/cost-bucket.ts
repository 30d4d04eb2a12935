/** What a tenant is guaranteed of a pool, in predicted GPU time. */
export interface CostProfile {
  /** GPU-ms that are granted a ms: the guaranteed ratio times the replicas of the pool. */
  readonly rateMsPerMs: number;
  /** GPU-ms that may come at once. */
  readonly burstMs: number;
}

/** What a {@link CostBucket} remembers. */
export interface CostBucketState {
  /** Taken and not yet granted again; beyond the burst it is a debt. */
  spentMs: number;
  updatedAtMs?: number;
}

/** Shorter bursts put tenants with few, large requests out of their profile: 3 s cost them a tenth. */
const BURST_PERIOD_MS = 10_000;
/** With no more of its burst spent than this, a bucket is as full as one in use ever gets. */
const NEARLY_FULL_SPENT_RATIO = 0.1;

/** The profile of who is granted so much, with the burst that every tenant gets unless another is given. */
export function costProfile(rateMsPerMs: number, burstPeriodMs = BURST_PERIOD_MS): CostProfile {
  return { rateMsPerMs, burstMs: rateMsPerMs * burstPeriodMs };
}

/**
 * Tells a tenant's committed requests from its excess, by what they are predicted to cost: a token
 * bucket as of srTCM (RFC 2697) over GPU-ms, since a count of requests cannot tell a long prompt
 * from a short one. A cost is taken as predicted and corrected when it is known.
 *
 * It keeps what is spent rather than what is left, so the profile may change from call to call. The
 * profile of a call is taken to have held since the call before.
 */
export class CostBucket {
  readonly state: CostBucketState;

  constructor(state: CostBucketState = { spentMs: 0 }) {
    this.state = state;
  }

  /**
   * Takes a request's cost if it is within the profile. A request larger than what is left passes
   * when the bucket is nearly full, and leaves a debt: otherwise one that is larger than the whole
   * burst never would.
   */
  take(costMs: number, profile: CostProfile, nowMs: number): boolean {
    if (!this.covers(costMs, profile, nowMs)) return false;
    this.state.spentMs += costMs;
    return true;
  }

  /** Whether `take` would say yes. */
  covers(costMs: number, profile: CostProfile, nowMs: number): boolean {
    this.#grant(profile, nowMs);
    // Without a burst nothing is guaranteed, and a bucket of no size is always full.
    return profile.burstMs > 0 && this.state.spentMs <= spentMaxMs(costMs, profile);
  }

  /** Takes of a cost what there is, and leaves no debt for the rest of it. */
  exhaust(costMs: number, profile: CostProfile, nowMs: number): void {
    this.#grant(profile, nowMs);
    const { state } = this;
    state.spentMs = Math.max(state.spentMs, Math.min(profile.burstMs, state.spentMs + costMs));
  }

  /** A request that was within the profile cost so much more, or less, than it took. */
  correct(deltaMs: number, profile: CostProfile, nowMs: number): void {
    this.#grant(profile, nowMs);
    // What would be left over is lost, as it is when a full bucket goes on being filled.
    this.state.spentMs = Math.max(0, this.state.spentMs + deltaMs);
  }

  /** How long until `take` says yes if nobody takes before; `Infinity` where nothing is granted. */
  inProfileAfterMs(costMs: number, profile: CostProfile, nowMs: number): number {
    if (profile.rateMsPerMs <= 0 || profile.burstMs <= 0) return Infinity;
    this.#grant(profile, nowMs);
    const missingMs = this.state.spentMs - spentMaxMs(costMs, profile);
    return Math.max(0, missingMs / profile.rateMsPerMs);
  }

  /** A clock that runs backwards grants nothing. */
  #grant({ rateMsPerMs }: CostProfile, nowMs: number): void {
    const { state } = this;
    const elapsedMs = Math.max(0, nowMs - (state.updatedAtMs ?? nowMs));
    state.updatedAtMs = Math.max(nowMs, state.updatedAtMs ?? nowMs);
    state.spentMs = Math.max(0, state.spentMs - elapsedMs * rateMsPerMs);
  }
}

/** The most that may be spent already for a request of this cost to pass. */
function spentMaxMs(costMs: number, { burstMs }: CostProfile): number {
  return Math.max(burstMs - costMs, NEARLY_FULL_SPENT_RATIO * burstMs);
}
