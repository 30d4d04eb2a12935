/** What a {@link DecayingAverage} believes before its first sample, and how firmly. */
export interface AveragePrior {
  readonly value: number;
  /** In the unit of a sample's weight. */
  readonly weight: number;
}

/**
 * A weighted mean in which a sample counts half as much after every half-life. It keeps its value
 * while no samples come; only the weight fades, so the first sample after a pause counts for more.
 */
export class DecayingAverage {
  readonly #halfLifeMs: number;
  #value: number | undefined;
  #weight: number;
  #updatedAtMs: number | undefined;

  constructor(options: { readonly halfLifeMs: number; readonly prior?: AveragePrior }) {
    this.#halfLifeMs = options.halfLifeMs;
    this.#value = options.prior?.value;
    this.#weight = options.prior?.weight ?? 0;
  }

  /** The mean of what was seen; `undefined` before the first sample when there is no prior. */
  get value(): number | undefined {
    return this.#value;
  }

  /** Adds a sample. A clock that stands still or runs backwards lets nothing fade. */
  add(value: number, nowMs: number, weight = 1): void {
    const elapsedMs = Math.max(0, nowMs - (this.#updatedAtMs ?? nowMs));
    const keptWeight = this.#weight * 2 ** (-elapsedMs / this.#halfLifeMs);
    this.#updatedAtMs = Math.max(nowMs, this.#updatedAtMs ?? nowMs);
    this.#weight = keptWeight + weight;
    // Moving the mean towards the sample, rather than dividing two sums, cannot become 0 / 0
    // after a pause in which every weight has faded to nothing.
    const mean = this.#value ?? value;
    this.#value = mean + ((value - mean) * weight) / this.#weight;
  }
}
