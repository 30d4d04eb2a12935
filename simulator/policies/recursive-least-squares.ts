/** How much a sample counts beside the one before it: half as much after 350 of them. */
const FORGETTING = 0.998;
/** How little is believed before the first sample. */
const PRIOR_VARIANCE = 100;
/** Without new directions the uncertainty would grow without bound. */
const VARIANCE_MAX = 1e6;

/** A linear model that is fitted sample by sample, older ones fading (Plackett, 1950). */
export class RecursiveLeastSquares {
  readonly #weights: number[];
  readonly #covariance: number[][];
  #samples = 0;

  constructor(features: number) {
    this.#weights = Array.from({ length: features }, () => 0);
    this.#covariance = this.#weights.map((_, row) =>
      this.#weights.map((__, column) => (row === column ? PRIOR_VARIANCE : 0)),
    );
  }

  get samples(): number {
    return this.#samples;
  }

  predict(features: readonly number[]): number {
    return dot(this.#weights, features);
  }

  learn(features: readonly number[], value: number): void {
    this.#samples += 1;
    const spread = this.#covariance.map((row) => dot(row, features));
    const gainScale = FORGETTING + dot(spread, features);
    const error = value - this.predict(features);
    for (const [row, along] of spread.entries()) {
      const gain = along / gainScale;
      this.#weights[row] = (this.#weights[row] ?? 0) + gain * error;
      const own = this.#covariance[row] ?? [];
      for (const [column, across] of spread.entries()) {
        const shrunk = ((own[column] ?? 0) - gain * across) / FORGETTING;
        own[column] = Math.max(-VARIANCE_MAX, Math.min(VARIANCE_MAX, shrunk));
      }
    }
  }
}

function dot(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, value, index) => sum + value * (b[index] ?? 0), 0);
}
