import { assert } from "../base/assert.ts";

/** What a {@link HoldBack} remembers. */
export interface HoldBackState {
  ratio: number;
  /** Up to when it has risen. */
  risenAtMs?: number;
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
  startRatio: 0.9,
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
 * It creeps up, and falls by a step with every second in which somebody in profile was refused for
 * want of room: so it settles where that happens once in some twenty seconds at the most. It also
 * falls while the promise to any tenant is broken.
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
    this.state.refusedAtMs = nowMs;
    this.#fall(refusedRatio, nowMs);
  }

  /** The promise to a tenant is broken at present; may be said as often as one likes. */
  broken(nowMs: number): void {
    const { brokenRatio, brokenIntervalMs } = this.#options;
    if (nowMs - (this.state.brokenAtMs ?? -Infinity) < brokenIntervalMs) return;
    this.state.brokenAtMs = nowMs;
    this.#fall(brokenRatio, nowMs);
  }

  /** Lets the ratio rise by the time that has passed; call it every second or so. */
  rise(nowMs: number): void {
    const { riseRatioPerSecond, ratioMax } = this.#options;
    const elapsedMs = Math.max(0, nowMs - (this.state.risenAtMs ?? nowMs));
    this.state.risenAtMs = nowMs;
    const ratio = this.state.ratio + (riseRatioPerSecond * elapsedMs) / 1000;
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
