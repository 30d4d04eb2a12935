/**
 * What sampling computes of every token of a vocabulary. All implementations give the same bits, so
 * that a text does not depend on which one there was.
 */
export interface SamplingMath {
  /**
   * Takes a row of logits and returns the token with the largest one, the lowest id among equals, or -1
   * if one is not finite.
   */
  bestOf(logits: Float32Array): number;
  /** A score for each token, to be written before `weigh`. */
  readonly scores: Float64Array;
  /** Makes scores of the logits that `bestOf` took last. */
  fillScores(): void;
  /** What `weigh` makes of scores. */
  readonly weights: Float64Array;
  /**
   * Weighs each token by exp((score - best) × inverseTemperature), where `best` is the largest score,
   * and those whose score is below `cut` by 0. Returns the sum of all.
   */
  weigh(best: number, inverseTemperature: number, cut: number): number;
  /** The sum of all weights of at least `cut`. */
  sumFrom(cut: number): number;
  /** Where `gather` copies to. */
  readonly candidates: Float64Array;
  /**
   * Copies the scores or weights of at least `lowest` and returns how many there are. It is finite, and
   * of weights more than 0.
   */
  gather(values: "scores" | "weights", lowest: number): number;
  /**
   * The token at which the weights of at least `cut`, added up in the order of ids, pass `target`; the
   * last one of them if they never do, and -1 if there is none. A weight of 0 is none.
   */
  draw(cut: number, target: number): number;
}

const LN2_HIGH = 0.6931471803691238;
const LN2_LOW = 1.9082149292705877e-10;
const ROUNDER = 6_755_399_441_055_744;
const POWER_MIN = -1000;
/** 1 / 13!, 1 / 12!, … 1 / 0!: the series of e^r. */
const SERIES = [
  1.6059043836821613e-10, 2.08767569878681e-9, 2.505210838544172e-8, 2.755731922398589e-7,
  2.7557319223985893e-6, 2.48015873015873e-5, 1.984126984126984e-4, 1.388888888888889e-3,
  8.333333333333333e-3, 4.1666666666666664e-2, 0.16666666666666666, 0.5, 1, 1,
] as const;
const POWERS = Float64Array.from({ length: 1 - POWER_MIN }, (_, index) => 2 ** -index);

/** The reference, in plain TypeScript; `gpu-backend/kernels/sampling.ts` is several times as fast. */
export class PlainSamplingMath implements SamplingMath {
  readonly scores: Float64Array;
  readonly weights: Float64Array;
  readonly candidates: Float64Array;
  #logits: Float32Array = new Float32Array(0);

  constructor(vocabularyTokens: number) {
    this.scores = new Float64Array(vocabularyTokens);
    this.weights = new Float64Array(vocabularyTokens);
    this.candidates = new Float64Array(vocabularyTokens);
  }

  bestOf(logits: Float32Array): number {
    this.#logits = logits;
    let bestToken = 0;
    let best = -Infinity;
    for (let token = 0; token < logits.length; token++) {
      const logit = logits[token] ?? Number.NaN;
      if (!Number.isFinite(logit)) return -1;
      if (logit > best) {
        bestToken = token;
        best = logit;
      }
    }
    return bestToken;
  }

  fillScores(): void {
    this.scores.set(this.#logits);
  }

  weigh(best: number, inverseTemperature: number, cut: number): number {
    const { scores, weights } = this;
    for (let token = 0; token < scores.length; token++) {
      const score = scores[token] ?? -Infinity;
      weights[token] = score >= cut ? exponential((score - best) * inverseTemperature) : 0;
    }
    return this.sumFrom(0);
  }

  sumFrom(cut: number): number {
    const { weights } = this;
    // Two sums, since the kernel adds in two lanes.
    let even = 0;
    let odd = 0;
    for (let token = 0; token < weights.length; token++) {
      const weight = weights[token] ?? 0;
      if (weight < cut) continue;
      if (token % 2 === 0) even += weight;
      else odd += weight;
    }
    return even + odd;
  }

  gather(values: "scores" | "weights", lowest: number): number {
    let count = 0;
    for (const value of this[values]) {
      if (value >= lowest) this.candidates[count++] = value;
    }
    return count;
  }

  draw(cut: number, target: number): number {
    const { weights } = this;
    let passed = 0;
    let last = -1;
    for (let token = 0; token < weights.length; token++) {
      const weight = weights[token] ?? 0;
      if (weight < cut || weight === 0) continue;
      passed += weight;
      last = token;
      if (passed > target) break;
    }
    return last;
  }
}

function exponential(argument: number): number {
  const power = Math.max(argument * Math.LOG2E, POWER_MIN);
  const n = power + ROUNDER - ROUNDER;
  const x = Math.max(argument, POWER_MIN * Math.LN2);
  const r = x - n * LN2_HIGH - n * LN2_LOW;
  let sum: number = SERIES[0];
  for (let index = 1; index < SERIES.length; index++) sum = sum * r + (SERIES[index] ?? 0);
  return sum * (POWERS[-n] ?? 0);
}
