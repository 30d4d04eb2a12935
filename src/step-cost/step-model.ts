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
/** Of a coefficient's own weight, what pulls it towards where it is. */
const RIDGE_RATIO = 1e-4;
/** A clock tells no step from one that is shorter. */
const DURATION_MS_MIN = 0.001;
/** No step lasts an hour; the square of an absurd time is too small a weight for any arithmetic. */
const DURATION_MS_MAX = 3_600_000;
/** A step this much faster than predicted is a clock too coarse, and gets no more weight than that. */
const SPEEDUP_MAX = 4;

/**
 * Learns from committed steps what a step costs: a constant, and so much per token, attended pair,
 * sequence and KV token.
 *
 * Least squares over relative errors, so that a stall among short steps says little, with older steps
 * fading. The sums are kept, and the coefficients solved for anew with each step; which would come out
 * below zero are zero instead. Along an axis, or a mixture of axes, of which the steps say nothing, they
 * stay where they are.
 */
export class StepModel implements StepForecast {
  #coefficients: Vector;
  /** Faded sums over steps of x·xᵀ, row by row, and of x·y, in relative terms. */
  readonly #products = new Float64Array(TERMS * TERMS);
  readonly #targets = new Float64Array(TERMS);
  /** Room for the equations that give the coefficients, with their right side. */
  readonly #system = new Float64Array(TERMS * (TERMS + 1));

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

  predictMs({ tokens, attendedPairs, sequences, kvTokens }: StepWork): number {
    const [fixedMs, tokenMs, attendedPairMs, sequenceMs, kvTokenMs] = this.#coefficients;
    return (
      fixedMs +
      tokenMs * tokens +
      attendedPairMs * attendedPairs +
      sequenceMs * sequences +
      kvTokenMs * kvTokens
    );
  }

  /** Learns from one step. A duration that no clock can have measured is not looked at. */
  record(work: StepWork, durationMs: number): void {
    if (!(durationMs >= DURATION_MS_MIN && durationMs <= DURATION_MS_MAX)) return;
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
    this.#solve();
  }

  /**
   * Moves to where the error is least, held a little by where the coefficients are. By elimination, since
   * tokens attended to and KV read are the same for a decode, and a descent along one axis at a time
   * would need thousands of steps to tell them apart by the few prefills among them.
   *
   * Whichever come out below zero are set to zero together, and none of them is tried again in this
   * round of solving. That may miss the least error that coefficients of zero and above can have, but
   * not by what a forecast would show.
   */
  #solve(): void {
    const before = this.#coefficients;
    const isFree = before.map((_, term) => (this.#products[term * (TERMS + 1)] ?? 0) > 0);
    // Each round but the last leaves one coefficient more at zero.
    for (let round = 0; round <= TERMS; round++) {
      this.#prepare(isFree);
      const solved = eliminate(this.#system);
      const negative = solved.findIndex((value) => value < 0);
      if (negative === -1) {
        const [fixedMs = 0, tokenMs = 0, attendedPairMs = 0, sequenceMs = 0, kvTokenMs = 0] =
          solved;
        this.#coefficients = [fixedMs, tokenMs, attendedPairMs, sequenceMs, kvTokenMs];
        return;
      }
      for (const [term, value] of solved.entries()) if (value < 0) isFree[term] = false;
    }
  }

  /**
   * Writes down the normal equations of the terms that are free. The others are zero, or stay where they
   * are where nothing is known of them. A ridge pulls each term towards where it is, by so little of its
   * own weight that it decides only what the steps leave open.
   */
  #prepare(isFree: readonly boolean[]): void {
    for (let row = 0; row < TERMS; row++) {
      const weight = this.#products[row * (TERMS + 1)] ?? 0;
      const before = this.#coefficients[row] ?? 0;
      for (let column = 0; column < TERMS; column++) {
        const isUsed = isFree[row] === true && isFree[column] === true;
        this.#system[row * (TERMS + 1) + column] = isUsed
          ? (this.#products[row * TERMS + column] ?? 0)
          : 0;
      }
      const own = row * (TERMS + 1) + row;
      const right = row * (TERMS + 1) + TERMS;
      if (isFree[row] === true) {
        this.#system[own] = (1 + RIDGE_RATIO) * weight;
        this.#system[right] = (this.#targets[row] ?? 0) + RIDGE_RATIO * weight * before;
      } else {
        this.#system[own] = 1;
        this.#system[right] = weight === 0 ? before : 0;
      }
    }
  }
}

/**
 * Solves equations written row by row, the right side last, in place. The matrix is symmetric and positive
 * definite, so Gauss needs no pivots.
 */
function eliminate(system: Float64Array): number[] {
  const width = TERMS + 1;
  const at = (row: number, column: number): number => system[row * width + column] ?? 0;
  for (let pivot = 0; pivot < TERMS; pivot++) {
    for (let row = pivot + 1; row < TERMS; row++) {
      const factor = at(row, pivot) / at(pivot, pivot);
      for (let column = pivot; column <= TERMS; column++) {
        system[row * width + column] = at(row, column) - factor * at(pivot, column);
      }
    }
  }
  const values = [0, 0, 0, 0, 0];
  for (let row = TERMS - 1; row >= 0; row--) {
    let sum = at(row, TERMS);
    for (let column = row + 1; column < TERMS; column++) {
      sum -= at(row, column) * (values[column] ?? 0);
    }
    values[row] = sum / at(row, row);
  }
  return values;
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

/** The work of so many more tokens of a sequence that the step computes anyway. */
export function workOfGuesses(startPosition: number, tokens: number): StepWork {
  return { ...workOfChunk(startPosition, tokens), sequences: 0, kvTokens: tokens };
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
