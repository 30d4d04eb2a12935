import type { Sampling } from "./generate-request.ts";
import { keyedRandom } from "./keyed-random.ts";
import { selectCut } from "./select-cut.ts";

/** Below it only logits within about a ten-thousandth of the best could ever be drawn. */
const TEMPERATURE_MIN = 1e-5;

/** Thrown for logits that are not finite: the row's computation is void, that of others is not. */
export class InvalidLogitsError extends Error {
  override readonly name = "InvalidLogitsError";
}

/**
 * Picks the next token from one row of logits. Depends on its arguments alone.
 *
 * The order is temperature, top-k, top-p over what top-k kept, then a draw keyed by seed and
 * `outputIndex`. Tokens as probable as the last one kept are kept too, so that the order of the vocabulary
 * decides no tie; top-p always keeps the most probable one. Throws `InvalidLogitsError` if a
 * logit is not finite.
 */
export function sampleToken(logits: Float32Array, sampling: Sampling, outputIndex: number): number {
  const bestToken = findBestToken(logits);
  if (sampling.temperature < TEMPERATURE_MIN) return bestToken;
  const weights = toWeights(logits, bestToken, sampling);
  const cut = sampling.topP < 1 ? findNucleusCut(weights, sampling.topP) : 0;
  return drawToken(weights, cut, keyedRandom(sampling.seed, outputIndex));
}

/** The token with the largest logit; the lowest id among equals. */
function findBestToken(logits: Float32Array): number {
  let bestToken = 0;
  let bestLogit = -Infinity;
  for (let token = 0; token < logits.length; token++) {
    const logit = logits[token] ?? Number.NaN;
    if (!Number.isFinite(logit)) {
      throw new InvalidLogitsError(`Expected finite logits, found ${logit} for token ${token}`);
    }
    if (logit > bestLogit) {
      bestToken = token;
      bestLogit = logit;
    }
  }
  return bestToken;
}

/**
 * Probabilities up to a common factor, 0 for what top-k drops. The best token weighs 1: nothing can
 * overflow, and sums in f64 lose nothing that a draw could show.
 */
function toWeights(logits: Float32Array, bestToken: number, sampling: Sampling): Float64Array {
  const { topK, temperature } = sampling;
  const isCut = topK > 0 && topK < logits.length;
  const logitCut = isCut ? selectCut(new Float64Array(logits), "count", topK) : -Infinity;
  const bestLogit = logits[bestToken] ?? 0;
  const weights = new Float64Array(logits.length);
  for (let token = 0; token < logits.length; token++) {
    const logit = logits[token] ?? 0;
    if (logit >= logitCut) weights[token] = Math.exp((logit - bestLogit) / temperature);
  }
  return weights;
}

/** The weight that a token needs to be among the most probable ones that make up `topP`. */
function findNucleusCut(weights: Float64Array, topP: number): number {
  return selectCut(weights.slice(), "sum", topP * sumFrom(weights, 0));
}

/** The token at the fraction `drawn` of the kept weight, counted in the order of ids. */
function drawToken(weights: Float64Array, cut: number, drawn: number): number {
  const target = drawn * sumFrom(weights, cut);
  let passed = 0;
  let lastToken = 0;
  for (let token = 0; token < weights.length; token++) {
    const weight = weights[token] ?? 0;
    if (weight < cut || weight === 0) continue;
    passed += weight;
    lastToken = token;
    if (passed > target) break;
  }
  // The loop runs out only when the product rounds up to the sum: at the last token kept.
  return lastToken;
}

/** The sum of all weights of at least `cut`. */
function sumFrom(weights: Float64Array, cut: number): number {
  let sum = 0;
  for (let token = 0; token < weights.length; token++) {
    const weight = weights[token] ?? 0;
    if (weight >= cut) sum += weight;
  }
  return sum;
}
