import { assert } from "../base/assert.ts";

/** What a {@link HoldBack} remembers. */
export interface HoldBackState {
  ratio: number;
  /** Up to when it has risen. */
  risenAtMs?: number;
  /** When it began to rise. */
  startedAtMs?: number;
  /** When it last fell, because somebody in profile was refused and because a promise was broken. */
  refusedAtMs?: number;
  brokenAtMs?: number;
}

/** How a {@link HoldBack} moves; ratios of a target. */
export interface HoldBackOptions {
  readonly startRatio: number;
  readonly ratioMin: number;
  readonly ratioMax: number;
  readonly riseRatioPerSecond: number;
  /** What refusals in profile take, however many there are in an interval. */
  readonly refusedRatio: number;
  readonly refusedIntervalMs: number;
  /** What a broken promise takes, and how long that has to show first. */
  readonly brokenRatio: number;
  readonly brokenIntervalMs: number;
}

const DEFAULTS: HoldBackOptions = {
  startRatio: 0.8,
  ratioMin: 0.3,
  ratioMax: 0.95,
  riseRatioPerSecond: 0.002,
  refusedRatio: 0.04,
  refusedIntervalMs: 1_000,
  brokenRatio: 0.05,
  brokenIntervalMs: 30_000,
};

/** With more than this free on some replica and nobody waiting, room is held back for no one. */
const IDLE_HEADROOM_RATIO = 0.5;

/**
 * How much of its targets a request beyond its tenant's guarantee may use: the rest is room for
 * those in profile, who can come at any time.
 *
 * It creeps up, the faster the longer nobody was refused, and falls by a step with every second in which
 * somebody in profile was refused for want of room: so it settles where that happens once in some twelve
 * seconds at the most, and what a bad minute took is back after the next. It also falls while the promise to
 * any tenant is broken.
 */
export class HoldBack {
  readonly state: HoldBackState;
  readonly #options: HoldBackOptions;

  constructor(options: Partial<HoldBackOptions> = {}, state?: HoldBackState) {
    this.#options = { ...DEFAULTS, ...options };
    this.state = state ?? { ratio: this.#options.startRatio };
  }

  /** A request in profile was refused for want of room. */
  refused(nowMs: number): void {
    const { refusedRatio, refusedIntervalMs } = this.#options;
    if (nowMs - (this.state.refusedAtMs ?? -Infinity) < refusedIntervalMs) return;
    this.#fall(refusedRatio, nowMs);
    this.state.refusedAtMs = nowMs;
  }

  /** The promise to a tenant is broken at present; may be said as often as one likes. */
  broken(nowMs: number): void {
    const { brokenRatio, brokenIntervalMs } = this.#options;
    if (nowMs - (this.state.brokenAtMs ?? -Infinity) < brokenIntervalMs) return;
    this.#fall(brokenRatio, nowMs);
    this.state.brokenAtMs = nowMs;
  }

  /** Lets the ratio rise by the time that has passed; call it every second or so. */
  rise(nowMs: number): void {
    const { riseRatioPerSecond, ratioMax } = this.#options;
    const { risenAtMs = nowMs, startedAtMs = nowMs } = this.state;
    this.state.startedAtMs = startedAtMs;
    this.state.risenAtMs = nowMs;
    const fellAtMs = Math.max(startedAtMs, this.state.refusedAtMs ?? 0, this.state.brokenAtMs ?? 0);
    const risen = quietRise(nowMs - fellAtMs) - quietRise(risenAtMs - fellAtMs);
    const ratio = this.state.ratio + Math.max(0, riseRatioPerSecond * risen);
    this.state.ratio = Math.min(ratioMax, ratio);
  }

  /** The ratio for one excess request; `headroomRatio` is that of the replica which has most. */
  excessRatio(pool: { readonly queueIsEmpty: boolean; readonly headroomRatio: number }): number {
    const isIdle = pool.queueIsEmpty && pool.headroomRatio > IDLE_HEADROOM_RATIO;
    return isIdle ? 1 : this.state.ratio;
  }

  checkInvariants(): void {
    const { ratioMin, ratioMax } = this.#options;
    assert(this.state.ratio >= ratioMin && this.state.ratio <= ratioMax, "a ratio is in its range");
  }

  #fall(ratio: number, nowMs: number): void {
    this.rise(nowMs);
    this.state.ratio = Math.max(this.#options.ratioMin, this.state.ratio - ratio);
  }
}

/** So much quiet doubles the speed of the rise. */
const QUIET_MS = 10_000;

/** How far it has risen by a time after its last fall, in seconds at the first speed. */
function quietRise(quietMs: number): number {
  const ms = Math.max(0, quietMs);
  return (ms + ms ** 2 / (2 * QUIET_MS)) / 1000;
}
