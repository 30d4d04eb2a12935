/** What a {@link SpeedFactor} remembers. */
export interface SpeedFactorState {
  logRatio: number;
}

/** How long a request took, and how long it was predicted to take by which factor. */
export interface PredictedDuration {
  readonly predictedMs: number;
  readonly actualMs: number;
  /** The load's `speedRatio` that the prediction was made with. */
  readonly speedRatio: number;
}

/** A few completions move the factor most of the way: a machine that throttles does so within seconds. */
const HALF_LIFE_COMPLETIONS = 2;
/** One completion says no more than that: it may have met a stall or a mistaken length. */
const CHANGE_MAX = 8;
/** Beyond that the coefficients themselves are not of this machine. */
const RATIO_MAX = 1_000;

/**
 * How many times longer a replica takes than its coefficients say, learned from completions: for an
 * engine that does not tell. A mean of logarithms, so that twice as slow and twice as fast weigh the same.
 */
export class SpeedFactor {
  readonly state: SpeedFactorState;

  constructor(state: SpeedFactorState = { logRatio: 0 }) {
    this.state = state;
  }

  get ratio(): number {
    return Math.exp(this.state.logRatio);
  }

  /**
   * Moves towards the factor that would have predicted right. Predictions that were made before the
   * factor last moved therefore do not move it twice. Durations that are not positive say nothing.
   */
  learn({ predictedMs, actualMs, speedRatio }: PredictedDuration): void {
    const observed = Math.log((speedRatio * actualMs) / predictedMs);
    if (!Number.isFinite(observed)) return;
    const { logRatio } = this.state;
    const change = clamp(observed - logRatio, Math.log(CHANGE_MAX));
    const moved = logRatio + (1 - 2 ** (-1 / HALF_LIFE_COMPLETIONS)) * change;
    this.state.logRatio = clamp(moved, Math.log(RATIO_MAX));
  }

  /** Another process may run on another machine. */
  forget(): void {
    this.state.logRatio = 0;
  }
}

function clamp(value: number, magnitudeMax: number): number {
  return Math.max(-magnitudeMax, Math.min(magnitudeMax, value));
}
