/** What makes one step take as long as it takes. */
export interface StepWork {
  readonly tokens: number;
  /** Pairs of a computed token and one it attends to, itself included. */
  readonly attendedPairs: number;
  readonly sequences: number;
  /** Tokens whose KV is read: the contexts of all sequences together. */
  readonly kvTokens: number;
}

/** What one unit of each kind of work takes; none is negative. */
export interface StepCoefficients {
  readonly fixedMs: number;
  readonly tokenMs: number;
  readonly attendedPairMs: number;
  readonly sequenceMs: number;
  readonly kvTokenMs: number;
}

/** Predicts how long steps take. */
export interface StepForecast {
  predictMs(work: StepWork): number;
}

/** A prefill that runs alone: tokens to compute behind others that have KV already. */
export interface LonePrefill {
  readonly computedTokens: number;
  readonly tokens: number;
  readonly batchTokensMax: number;
}

type Vector = readonly [number, number, number, number, number];

const TERMS = 5;
/** Steps after which a sample counts about a third: enough of them hold prefills of many lengths. */
const MEMORY_STEPS = 500;
/** The warm-up counts as so many steps. */
const PRIOR_STEPS = 4;
/** Rounds of the descent a step; the next step goes on where this one stopped. */
const DESCENT_ROUNDS = 4;
/** A clock tells no step from one that is shorter. */
const DURATION_MS_MIN = 0.001;
/** A step this much faster than predicted is a clock too coarse, and gets no more weight than that. */
const SPEEDUP_MAX = 4;

/**
 * Learns from committed steps what a step costs: a constant, and so much per token, attended pair,
 * sequence and KV token.
 *
 * Least squares over relative errors, so that a stall among short steps says little, with older steps
 * fading. The sums are kept, and the coefficients descend along one axis at a time, never below
 * zero; along an axis, or a mixture of axes, of which the steps say nothing, they stay where they are.
 */
export class StepModel implements StepForecast {
  #coefficients: Vector;
  /** Faded sums over steps of x·xᵀ, row by row, and of x·y, in relative terms. */
  readonly #products = new Float64Array(TERMS * TERMS);
  readonly #targets = new Float64Array(TERMS);

  /** `prior` is believed as firmly as a few steps that showed each of its terms alone. */
  constructor(prior: StepCoefficients) {
    this.#coefficients = toVector(prior);
    for (const [term, coefficient] of this.#coefficients.entries()) {
      if (coefficient === 0) continue;
      this.#products[term * TERMS + term] = PRIOR_STEPS / coefficient ** 2;
      this.#targets[term] = PRIOR_STEPS / coefficient;
    }
  }

  get coefficients(): StepCoefficients {
    const [fixedMs, tokenMs, attendedPairMs, sequenceMs, kvTokenMs] = this.#coefficients;
    return { fixedMs, tokenMs, attendedPairMs, sequenceMs, kvTokenMs };
  }

  predictMs(work: StepWork): number {
    return dot(this.#coefficients, termsOf(work));
  }

  /** Learns from one step. A duration that no clock can have measured is not looked at. */
  record(work: StepWork, durationMs: number): void {
    if (!(durationMs >= DURATION_MS_MIN && durationMs < Infinity)) return;
    const scaleMs = Math.max(durationMs, this.predictMs(work) / SPEEDUP_MAX);
    const terms = termsOf(work).map((term) => term / scaleMs);
    const kept = 1 - 1 / MEMORY_STEPS;
    for (const [row, rowTerm] of terms.entries()) {
      for (const [column, columnTerm] of terms.entries()) {
        const index = row * TERMS + column;
        this.#products[index] = kept * (this.#products[index] ?? 0) + rowTerm * columnTerm;
      }
      this.#targets[row] = kept * (this.#targets[row] ?? 0) + rowTerm * (durationMs / scaleMs);
    }
    for (let round = 0; round < DESCENT_ROUNDS; round++) this.#descend();
  }

  /** Moves every coefficient in turn to where the error is least while the others stay. */
  #descend(): void {
    const coefficients = [...this.#coefficients];
    for (let term = 0; term < TERMS; term++) {
      const products = this.#products.subarray(term * TERMS, (term + 1) * TERMS);
      const curvature = products[term] ?? 0;
      if (curvature === 0) continue;
      const slope = (this.#targets[term] ?? 0) - dot(coefficients, products);
      coefficients[term] = Math.max(0, (coefficients[term] ?? 0) + slope / curvature);
    }
    const [fixedMs = 0, tokenMs = 0, attendedPairMs = 0, sequenceMs = 0, kvTokenMs = 0] =
      coefficients;
    this.#coefficients = [fixedMs, tokenMs, attendedPairMs, sequenceMs, kvTokenMs];
  }
}

/** Pairs of one of so many tokens and one it attends to: `startPosition` others, those before it, itself. */
export function attendedPairsOf(startPosition: number, tokens: number): number {
  return tokens * startPosition + (tokens * (tokens + 1)) / 2;
}

/** The work of so many tokens behind `startPosition` others. */
export function workOfChunk(startPosition: number, tokens: number): StepWork {
  return {
    tokens,
    attendedPairs: attendedPairsOf(startPosition, tokens),
    sequences: 1,
    kvTokens: startPosition + tokens,
  };
}

export const NO_WORK: StepWork = { tokens: 0, attendedPairs: 0, sequences: 0, kvTokens: 0 };

/** The work of both in one step. */
export function addWork(a: StepWork, b: StepWork): StepWork {
  return {
    tokens: a.tokens + b.tokens,
    attendedPairs: a.attendedPairs + b.attendedPairs,
    sequences: a.sequences + b.sequences,
    kvTokens: a.kvTokens + b.kvTokens,
  };
}

/** How long a prefill takes that has every step to itself, from its first step to its first token. */
export function predictPrefillMs(forecast: StepForecast, prefill: LonePrefill): number {
  const { computedTokens, batchTokensMax } = prefill;
  const endTokens = computedTokens + prefill.tokens;
  let prefillMs = 0;
  for (let start = computedTokens; start < endTokens; start += batchTokensMax) {
    const tokens = Math.min(batchTokensMax, endTokens - start);
    prefillMs += forecast.predictMs(workOfChunk(start, tokens));
  }
  return prefillMs;
}

function termsOf(work: StepWork): Vector {
  return [1, work.tokens, work.attendedPairs, work.sequences, work.kvTokens];
}

function toVector(coefficients: StepCoefficients): Vector {
  const { fixedMs, tokenMs, attendedPairMs, sequenceMs, kvTokenMs } = coefficients;
  return [fixedMs, tokenMs, attendedPairMs, sequenceMs, kvTokenMs];
}

function dot(a: readonly number[], b: ArrayLike<number>): number {
  return a.reduce((sum, value, index) => sum + value * (b[index] ?? 0), 0);
}
