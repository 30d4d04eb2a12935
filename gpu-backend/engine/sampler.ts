import { adjustLogits, isUnadjusted } from "./adjust-logits.ts";
import type { Sampling, TokenLogprob } from "./generate-request.ts";
import { keyedRandom } from "./keyed-random.ts";
import { invalidLogit, tokenLogprob } from "./log-probability.ts";
import { selectCut } from "./select-cut.ts";
import type { TokenChoice } from "./token-choice.ts";

/** Below it only logits within about a ten-thousandth of the best could ever be drawn. */
const TEMPERATURE_MIN = 1e-5;

/** Thrown when a sequence can neither go on nor end: its constraint has run into a dead end. */
export class NothingAllowedError extends Error {
  override readonly name = "NothingAllowedError";
}

/** The next token of a sequence, and how probable the model held it to be if that was asked for. */
export interface ChosenToken {
  readonly tokenId: number;
  readonly logprob?: TokenLogprob;
}

/**
 * Chooses next tokens. A choice depends on its arguments alone; what the sampler holds are buffers
 * as long as the vocabulary, which are not worth allocating for every token.
 */
export class Sampler {
  readonly vocabularyTokens: number;
  readonly #scores: Float64Array;
  /** What top-k keeps, in the order of ids, and how probable each is. */
  readonly #keptTokens: Int32Array;
  readonly #weights: Float64Array;
  readonly #scratch: Float64Array;

  constructor(vocabularyTokens: number) {
    this.vocabularyTokens = vocabularyTokens;
    this.#scores = new Float64Array(vocabularyTokens);
    this.#keptTokens = new Int32Array(vocabularyTokens);
    this.#weights = new Float64Array(vocabularyTokens);
    this.#scratch = new Float64Array(vocabularyTokens);
  }

  /**
   * Chooses by one row of logits.
   *
   * The order is: log probabilities under the raw logits; the constraint; no stop token below the
   * minimum; biases; penalties; then the best token, or temperature, top-k, top-p over what top-k
   * kept, min-p, and a draw keyed by seed and `outputIndex`. Tokens as probable as the last
   * one kept are kept too, so that the order of the vocabulary decides no tie; the most probable one
   * always stays. Throws `InvalidLogitsError` if a logit is not finite, `NothingAllowedError` if
   * no token is left, and whatever the constraint throws.
   */
  choose(logits: Float32Array, choice: TokenChoice): ChosenToken {
    checkFinite(logits);
    const tokenId = this.#choose(logits, choice);
    const { logprobsTop } = choice;
    if (logprobsTop === undefined) return { tokenId };
    return { tokenId, logprob: tokenLogprob(logits, tokenId, logprobsTop) };
  }

  #choose(logits: Float32Array, choice: TokenChoice): number {
    const { sampling, outputIndex } = choice;
    const scores = this.#scores;
    const isGreedy = sampling.temperature < TEMPERATURE_MIN;
    if (isGreedy && isUnadjusted(choice)) return bestTokenOf(logits);
    scores.set(logits);
    adjustLogits(scores, choice);
    const bestToken = bestTokenOf(scores);
    const bestScore = scores[bestToken] ?? 0;
    if (bestScore === -Infinity) throw new NothingAllowedError("No token is allowed to come next");
    if (isGreedy) return bestToken;
    const weights = this.#weigh(bestScore, sampling);
    const cut = Math.max(sampling.minP, this.#nucleusCut(weights, sampling.topP));
    const drawn = drawIndex(weights, cut, keyedRandom(sampling.seed, outputIndex));
    return this.#keptTokens[drawn] ?? bestToken;
  }

  /**
   * Gathers what top-k keeps. Returns probabilities up to a common factor: the best token weighs 1, so
   * nothing can overflow, and sums in f64 lose nothing that a draw could show.
   */
  #weigh(bestScore: number, { topK, temperature }: Sampling): Float64Array {
    const scores = this.#scores;
    const isCut = topK > 0 && topK < scores.length;
    const scoreCut = isCut ? selectCut(this.#copy(scores), "count", topK) : -Infinity;
    let kept = 0;
    for (let token = 0; token < scores.length; token++) {
      const score = scores[token] ?? -Infinity;
      if (score < scoreCut || score === -Infinity) continue;
      this.#keptTokens[kept] = token;
      this.#weights[kept] = Math.exp((score - bestScore) / temperature);
      kept += 1;
    }
    return this.#weights.subarray(0, kept);
  }

  /** The weight that a token needs to be among the most probable ones that make up `topP`. */
  #nucleusCut(weights: Float64Array, topP: number): number {
    if (topP >= 1) return 0;
    return selectCut(this.#copy(weights), "sum", topP * sumFrom(weights, 0));
  }

  /** A copy that may be reordered, until the next one is made. */
  #copy(values: Float64Array): Float64Array {
    this.#scratch.set(values);
    return this.#scratch.subarray(0, values.length);
  }
}

function checkFinite(logits: Float32Array): void {
  for (let token = 0; token < logits.length; token++) {
    const logit = logits[token] ?? Number.NaN;
    if (!Number.isFinite(logit)) throw invalidLogit(logit, token);
  }
}

/** The token with the largest value; the lowest id among equals. */
function bestTokenOf(values: Float32Array | Float64Array): number {
  let bestToken = 0;
  let best = -Infinity;
  for (let token = 0; token < values.length; token++) {
    const value = values[token] ?? -Infinity;
    if (value > best) {
      bestToken = token;
      best = value;
    }
  }
  return bestToken;
}

/** The index of the weight at the fraction `drawn` of all that are kept, counted in their order. */
function drawIndex(weights: Float64Array, cut: number, drawn: number): number {
  const target = drawn * sumFrom(weights, cut);
  let passed = 0;
  let lastIndex = 0;
  for (let index = 0; index < weights.length; index++) {
    const weight = weights[index] ?? 0;
    if (weight < cut || weight === 0) continue;
    passed += weight;
    lastIndex = index;
    if (passed > target) break;
  }
  // The loop runs out only when the product rounds up to the sum: at the last one kept.
  return lastIndex;
}

/** The sum of all weights of at least `cut`. */
function sumFrom(weights: Float64Array, cut: number): number {
  let sum = 0;
  for (let index = 0; index < weights.length; index++) {
    const weight = weights[index] ?? 0;
    if (weight >= cut) sum += weight;
  }
  return sum;
}
