import { assert } from "../base/assert.ts";

/** What a {@link HoldBack} remembers. */
export interface HoldBackState {
  ratio: number;
  updatedAtMs?: number;
  loweredAtMs?: number;
}

/** How a {@link HoldBack} moves; ratios of a target. */
export interface HoldBackOptions {
  readonly startRatio: number;
  readonly ratioMin: number;
  readonly ratioMax: number;
  readonly fallRatio: number;
  readonly riseRatioPerSecond: number;
  /** Between two falls: what one of them did has to show first. */
  readonly windowMs: number;
}

const DEFAULTS: HoldBackOptions = {
  startRatio: 0.6,
  ratioMin: 0.4,
  ratioMax: 0.9,
  fallRatio: 0.05,
  riseRatioPerSecond: 0.01,
  windowMs: 30_000,
};

/** With more than this free on some replica and nobody waiting, room is held back for no one. */
const IDLE_HEADROOM_RATIO = 0.5;

/**
 * How much of its targets a request beyond its tenant's guarantee may use: the rest is room for
 * those in profile, who can come at any time. It falls in steps while one of them burns its error
 * budget and creeps up while none does.
 */
export class HoldBack {
  readonly state: HoldBackState;
  readonly #options: HoldBackOptions;

  constructor(options: Partial<HoldBackOptions> = {}, state?: HoldBackState) {
    this.#options = { ...DEFAULTS, ...options };
    this.state = state ?? { ratio: this.#options.startRatio };
  }

  /** Follows whether any tenant burns its budget by requests in profile; call it every second or so. */
  update(isBurning: boolean, nowMs: number): void {
    const { state } = this;
    const { ratioMin, ratioMax, fallRatio, riseRatioPerSecond, windowMs } = this.#options;
    const elapsedMs = Math.max(0, nowMs - (state.updatedAtMs ?? nowMs));
    state.updatedAtMs = Math.max(nowMs, state.updatedAtMs ?? nowMs);
    if (!isBurning) {
      state.ratio = Math.min(ratioMax, state.ratio + (riseRatioPerSecond * elapsedMs) / 1000);
    } else if (nowMs - (state.loweredAtMs ?? -Infinity) >= windowMs) {
      state.ratio = Math.max(ratioMin, state.ratio - fallRatio);
      state.loweredAtMs = nowMs;
    }
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
}
