import { assert } from "../base/assert.ts";

/**
 * `healthy` and `suspect` replicas get requests, an `ejected` one gets none until its time is over, and
 * then, `probing`, one at a time until one of them goes well.
 */
export type HealthStatus = "healthy" | "suspect" | "ejected" | "probing";

export interface HealthOptions {
  /** Failures in a row that eject a replica. */
  readonly ejectAfter: number;
  /** Different requests that stall within `stallWindowMs` and so eject it. */
  readonly ejectAfterStalls: number;
  readonly stallWindowMs: number;
  /** How long the first ejection lasts; each further one lasts twice as long. */
  readonly cooldownMs: number;
  readonly cooldownMsMax: number;
  /** How long it takes after a return until the replica gets its full share again. */
  readonly slowStartMs: number;
}

/** What a {@link ReplicaHealth} remembers. */
export interface ReplicaHealthState {
  /** In a row, up to the present. */
  failures: number;
  /** Of different requests, oldest first. */
  stalls: { readonly dispatchNumber: number; readonly atMs: number }[];
  /** Ejections that had no long time of health between them. */
  ejections: number;
  /** Present while it is ejected or probed: from then on it may be probed. */
  ejectedUntilMs?: number;
  /** The dispatch that shows whether it is well again. */
  probeNumber?: number;
  /** When it got its first full request after an ejection or a restart. */
  returnedAtMs?: number;
}

export const HEALTH_OPTIONS: HealthOptions = {
  ejectAfter: 3,
  ejectAfterStalls: 3,
  stallWindowMs: 5_000,
  cooldownMs: 5_000,
  cooldownMsMax: 120_000,
  slowStartMs: 10_000,
};

/** What a replica gets at the start of a slow start: enough to learn from. */
const CAPACITY_RATIO_MIN = 0.1;
/** Doubling so often exceeds any cap. */
const EJECTIONS_MAX = 32;

/**
 * Whether a replica does what it is asked, as a circuit breaker sees it: outlier ejection with growing,
 * capped time, half-open probes, and a slow start on return. Only what is sent from now on is
 * decided by it: requests that are there may finish.
 */
export class ReplicaHealth {
  readonly state: ReplicaHealthState;
  #options: HealthOptions;

  constructor(
    options: Partial<HealthOptions> = {},
    state: ReplicaHealthState = { failures: 0, stalls: [], ejections: 0 },
  ) {
    this.state = state;
    this.#options = { ...HEALTH_OPTIONS, ...options };
  }

  /** Follows the configuration: from the next failure on it counts as is said now. */
  configure(options: Partial<HealthOptions>): void {
    this.#options = { ...HEALTH_OPTIONS, ...options };
    // What was not enough when it happened ejects nobody afterwards, and the next failure does.
    this.state.failures = Math.min(this.state.failures, this.#options.ejectAfter);
    this.state.stalls = this.state.stalls.slice(-this.#options.ejectAfterStalls);
  }

  statusAt(nowMs: number): HealthStatus {
    const { ejectedUntilMs, failures } = this.state;
    if (ejectedUntilMs !== undefined) return nowMs < ejectedUntilMs ? "ejected" : "probing";
    return failures > 0 || this.#recentStalls(nowMs).length > 0 ? "suspect" : "healthy";
  }

  /** True from an ejection until a probe has gone well. */
  get isEjected(): boolean {
    return this.state.ejectedUntilMs !== undefined;
  }

  /** When it may be probed; `undefined` unless it is ejected or probed. */
  get ejectedUntilMs(): number | undefined {
    return this.state.ejectedUntilMs;
  }

  /** Whether it may be sent a request now: always, never, or one at a time. */
  canTake(nowMs: number): boolean {
    const { ejectedUntilMs, probeNumber } = this.state;
    if (ejectedUntilMs === undefined) return true;
    return nowMs >= ejectedUntilMs && probeNumber === undefined;
  }

  /** Which share of its capacity it should be given: less than 1 while it is probed or has just returned. */
  capacityRatio(nowMs: number): number {
    const { returnedAtMs } = this.state;
    if (this.isEjected) return CAPACITY_RATIO_MIN;
    if (returnedAtMs === undefined) return 1;
    const progress = Math.max(0, nowMs - returnedAtMs) / this.#options.slowStartMs;
    return Math.min(1, CAPACITY_RATIO_MIN + (1 - CAPACITY_RATIO_MIN) * progress);
  }

  /** Ends the wait for a probe: nobody else is there. */
  probeNow(nowMs: number): void {
    const { ejectedUntilMs } = this.state;
    if (ejectedUntilMs !== undefined) this.state.ejectedUntilMs = Math.min(ejectedUntilMs, nowMs);
  }

  /** A request was sent here. To one that is probed, it is the probe. */
  dispatched(dispatchNumber: number, nowMs: number): void {
    if (!this.isEjected) return;
    assert(this.canTake(nowMs), "an ejected replica gets nothing but one probe at a time");
    this.state.probeNumber = dispatchNumber;
  }

  /** A request went well there. What was sent before an ejection proves nothing. */
  succeeded(dispatchNumber: number, nowMs: number): void {
    if (!this.isEjected) {
      this.state.failures = 0;
    } else if (this.state.probeNumber === dispatchNumber) {
      this.#return(nowMs);
    }
  }

  /**
   * A request failed there, by no fault of its own. `mayEject` false: nobody could do its replica's
   * work, so that stays in use, suspect. What was sent before an ejection fails of the same trouble.
   */
  failed(dispatchNumber: number, nowMs: number, mayEject: boolean): void {
    if (this.isEjected) {
      this.#failProbe(dispatchNumber, nowMs, mayEject);
      return;
    }
    const { ejectAfter } = this.#options;
    this.state.failures = Math.min(ejectAfter, this.state.failures + 1);
    if (this.state.failures === ejectAfter && mayEject) this.#eject(nowMs);
  }

  /** A stream from there has paused for much too long. One request counts once. */
  stalled(dispatchNumber: number, nowMs: number, mayEject: boolean): void {
    if (this.isEjected) {
      this.#failProbe(dispatchNumber, nowMs, mayEject);
      return;
    }
    const stalls = this.#recentStalls(nowMs);
    if (!stalls.some((stall) => stall.dispatchNumber === dispatchNumber)) {
      stalls.push({ dispatchNumber, atMs: nowMs });
    }
    const { ejectAfterStalls } = this.#options;
    this.state.stalls = stalls.slice(-ejectAfterStalls);
    if (stalls.length >= ejectAfterStalls && mayEject) this.#eject(nowMs);
  }

  /** A request has left, whatever became of it. A probe that proved nothing makes room for another. */
  released(dispatchNumber: number): void {
    if (this.state.probeNumber === dispatchNumber) delete this.state.probeNumber;
  }

  /** Another process has taken its place: it has failed nobody, but starts cold. */
  restarted(nowMs: number): void {
    this.#return(nowMs);
  }

  checkInvariants(): void {
    const { failures, stalls, ejections, ejectedUntilMs, probeNumber } = this.state;
    assert(
      failures <= this.#options.ejectAfter,
      "failures are counted no further than they matter",
    );
    assert(stalls.length <= this.#options.ejectAfterStalls, "the stalls are within their bound");
    assert(ejections <= EJECTIONS_MAX, "ejections are counted no further than they matter");
    assert(probeNumber === undefined || ejectedUntilMs !== undefined, "only the ejected is probed");
  }

  #recentStalls(nowMs: number): ReplicaHealthState["stalls"] {
    const sinceMs = nowMs - this.#options.stallWindowMs;
    return this.state.stalls.filter(({ atMs }) => atMs >= sinceMs);
  }

  #failProbe(dispatchNumber: number, nowMs: number, mayEject: boolean): void {
    if (this.state.probeNumber !== dispatchNumber) return;
    if (mayEject) {
      this.#eject(nowMs);
    } else {
      this.#return(nowMs);
      this.state.failures = 1;
    }
  }

  #eject(nowMs: number): void {
    const { state } = this;
    const { cooldownMs, cooldownMsMax } = this.#options;
    const healthyMs = nowMs - (state.returnedAtMs ?? nowMs);
    if (!this.isEjected && healthyMs > cooldownMsMax) state.ejections = 0;
    state.ejections = Math.min(EJECTIONS_MAX, state.ejections + 1);
    state.ejectedUntilMs = nowMs + Math.min(cooldownMsMax, cooldownMs * 2 ** (state.ejections - 1));
    this.#clear();
  }

  #return(nowMs: number): void {
    delete this.state.ejectedUntilMs;
    this.state.returnedAtMs = nowMs;
    this.#clear();
  }

  #clear(): void {
    this.state.failures = 0;
    this.state.stalls = [];
    delete this.state.probeNumber;
  }
}
