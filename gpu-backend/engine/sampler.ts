import { adjustLogits, isUnadjusted } from "./adjust-logits.ts";
import type { TokenLogprob } from "./generate-request.ts";
import { keyedRandom } from "./keyed-random.ts";
import { invalidLogit, tokenLogprob } from "./log-probability.ts";
import { PlainSamplingMath, type SamplingMath } from "./sampling-math.ts";
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

/** Below every finite score, so that what is forbidden weighs nothing. */
const LOWEST_SCORE = -Number.MAX_VALUE;
/** The share of the best token's weight that a nucleus is first looked for among, and then a part of it. */
const NUCLEUS_FIRST_CUT = 1 / 64;
/** The gap to the best score, in units of the temperature, within which the k best are first looked for. */
const TOP_K_FIRST_GAP = 4;

/**
 * Chooses next tokens. A choice depends on its arguments alone; what the sampler holds are buffers
 * as long as the vocabulary, which are not worth allocating for every token.
 */
export class Sampler {
  readonly vocabularyTokens: number;
  readonly #math: SamplingMath;

  constructor(
    vocabularyTokens: number,
    math: SamplingMath = new PlainSamplingMath(vocabularyTokens),
  ) {
    this.vocabularyTokens = vocabularyTokens;
    this.#math = math;
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
    const bestLogit = this.#math.bestOf(logits);
    if (bestLogit < 0) throw invalidLogitAmong(logits);
    const tokenId = this.#choose(bestLogit, choice);
    const { logprobsTop } = choice;
    if (logprobsTop === undefined) return { tokenId };
    return { tokenId, logprob: tokenLogprob(logits, tokenId, logprobsTop) };
  }

  /** `bestLogit` is the token with the largest one. */
  #choose(bestLogit: number, choice: TokenChoice): number {
    const { sampling, outputIndex } = choice;
    const { scores } = this.#math;
    const isGreedy = sampling.temperature < TEMPERATURE_MIN;
    const isPlain = isUnadjusted(choice);
    if (isGreedy && isPlain) return bestLogit;
    this.#math.fillScores();
    if (!isPlain) adjustLogits(scores, choice);
    const bestToken = isPlain ? bestLogit : bestTokenOf(scores);
    const bestScore = scores[bestToken] ?? 0;
    if (bestScore === -Infinity) throw new NothingAllowedError("No token is allowed to come next");
    if (isGreedy) return bestToken;
    // The best token weighs 1, so nothing can overflow, and sums in f64 lose nothing a draw could show.
    const { temperature, topK, topP, minP, seed } = sampling;
    const scoreCut = Math.max(LOWEST_SCORE, this.#topKCut(bestScore, topK, temperature));
    const sum = this.#math.weigh(bestScore, 1 / temperature, scoreCut);
    const cut = Math.max(minP, topP < 1 ? this.#nucleusCut(topP * sum) : 0);
    const target = keyedRandom(seed, outputIndex) * this.#math.sumFrom(cut);
    const drawn = this.#math.draw(cut, target);
    return drawn < 0 ? bestToken : drawn;
  }

  /** The score that a token needs to be among the `topK` best ones. */
  #topKCut(bestScore: number, topK: number, temperature: number): number {
    const { scores } = this.#math;
    if (topK <= 0 || topK >= scores.length) return -Infinity;
    for (let gap = TOP_K_FIRST_GAP; Number.isFinite(gap); gap *= 2) {
      const lowest = Math.max(LOWEST_SCORE, bestScore - gap * temperature);
      const count = this.#math.gather("scores", lowest);
      if (count >= topK) return selectCut(this.#math.candidates.subarray(0, count), "count", topK);
    }
    return -Infinity;
  }

  /** The weight that a token needs to be among the most probable ones that weigh `target`. */
  #nucleusCut(target: number): number {
    let lowest = NUCLEUS_FIRST_CUT;
    // Few tokens make up most of it, so the others need not be ordered.
    while (lowest > Number.MIN_VALUE && this.#math.sumFrom(lowest) < target) lowest *= lowest;
    const count = this.#math.gather("weights", Math.max(lowest, Number.MIN_VALUE));
    return selectCut(this.#math.candidates.subarray(0, count), "sum", target);
  }
}

function invalidLogitAmong(logits: Float32Array): Error {
  const token = logits.findIndex((logit) => !Number.isFinite(logit));
  return invalidLogit(logits[token] ?? Number.NaN, token);
}

/** The token with the largest value; the lowest id among equals. */
function bestTokenOf(values: Float64Array): number {
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
