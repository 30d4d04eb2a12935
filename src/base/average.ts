/** What a {@link DecayingAverage} believes before its first sample, and how firmly. */
export interface AveragePrior {
  readonly value: number;
  /** In the unit of a sample's weight. */
  readonly weight: number;
}

/** What a {@link DecayingAverage} remembers. */
export interface AverageState {
  value?: number;
  weight: number;
  updatedAtMs?: number;
}

/**
 * A weighted mean in which a sample counts half as much after every half-life. It keeps its value
 * while no samples come; only the weight fades, so the first sample after a pause counts for more.
 */
export class DecayingAverage {
  readonly state: AverageState;
  readonly #halfLifeMs: number;

  /** Goes on from `state` where it is given; the prior is then part of it. */
  constructor(
    options: { readonly halfLifeMs: number; readonly prior?: AveragePrior },
    state: AverageState = { weight: 0, ...options.prior },
  ) {
    this.#halfLifeMs = options.halfLifeMs;
    this.state = state;
  }

  /** The mean of what was seen; `undefined` before the first sample when there is no prior. */
  get value(): number | undefined {
    return this.state.value;
  }

  /** Adds a sample. A clock that stands still or runs backwards lets nothing fade. */
  add(value: number, nowMs: number, weight = 1): void {
    const { state } = this;
    const elapsedMs = Math.max(0, nowMs - (state.updatedAtMs ?? nowMs));
    const keptWeight = state.weight * 2 ** (-elapsedMs / this.#halfLifeMs);
    state.updatedAtMs = Math.max(nowMs, state.updatedAtMs ?? nowMs);
    state.weight = keptWeight + weight;
    // Moving the mean towards the sample, rather than dividing two sums, cannot become 0 / 0
    // after a pause in which every weight has faded to nothing.
    const mean = state.value ?? value;
    state.value = mean + ((value - mean) * weight) / state.weight;
  }
}
