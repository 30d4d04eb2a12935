import type { SamplingMath } from "../sampling-math.ts";
import { instantiateKernel } from "./kernel.ts";
import { OwnMemory } from "./own-memory.ts";
import { createWasmMemory } from "./wasm-memory.ts";

/** The exports of `gpu-backend/kernels/sampling.ts`; addresses are bytes in its memory. */
interface Kernel {
  bestOf(logits: number, fours: number): number;
  widen(logits: number, pairs: number, scores: number): void;
  weigh(
    scores: number,
    pairs: number,
    best: number,
    inverseTemperature: number,
    cut: number,
    weights: number,
  ): number;
  sumFrom(weights: number, pairs: number, cut: number): number;
  gather(values: number, pairs: number, lowest: number, target: number): number;
  draw(weights: number, pairs: number, cut: number, target: number): number;
}

const FUNCTIONS = ["bestOf", "widen", "weigh", "sumFrom", "gather", "draw"] as const;
/** What vectors of f32 and of f64 hold. */
const FLOAT_LANES = 4;
const LANES = 2;
/** Below every finite logit. */
const LOWEST_LOGIT = -3.402_823_466_385_288_6e38;

/** The arithmetic of sampling by our own kernel, in a memory of its own. */
export function createSamplingKernel(vocabularyTokens: number): SamplingMath {
  const own = new OwnMemory(createWasmMemory());
  const kernel = instantiateKernel<Kernel>("sampling", own.memory, FUNCTIONS);
  const fours = Math.ceil(vocabularyTokens / FLOAT_LANES);
  const pairs = Math.ceil(vocabularyTokens / LANES);
  const floats = () => {
    const address = own.allocate(pairs * LANES * Float64Array.BYTES_PER_ELEMENT);
    return new Float64Array(own.memory.buffer, address, pairs * LANES);
  };
  const logitsAt = own.allocate(fours * FLOAT_LANES * Float32Array.BYTES_PER_ELEMENT);
  const padded = new Float32Array(own.memory.buffer, logitsAt, fours * FLOAT_LANES);
  const logits = padded.subarray(0, vocabularyTokens);
  const [scores, weights, candidates] = [floats(), floats(), floats()];
  // Tokens that only pad the vocabulary are never the best, and never weigh anything.
  padded.fill(LOWEST_LOGIT);
  const isPadded = pairs * LANES > vocabularyTokens;
  scores.fill(-Infinity);
  const places = { scores: scores.byteOffset, weights: weights.byteOffset };
  return {
    bestOf: (row) => {
      logits.set(row);
      return kernel.bestOf(logitsAt, fours);
    },
    scores: scores.subarray(0, vocabularyTokens),
    fillScores: () => {
      kernel.widen(logitsAt, pairs, scores.byteOffset);
      if (isPadded) scores[vocabularyTokens] = -Infinity;
    },
    weights: weights.subarray(0, vocabularyTokens),
    weigh: (best, inverseTemperature, cut) =>
      kernel.weigh(scores.byteOffset, pairs, best, inverseTemperature, cut, weights.byteOffset),
    sumFrom: (cut) => kernel.sumFrom(weights.byteOffset, pairs, cut),
    candidates,
    gather: (values, lowest) => kernel.gather(places[values], pairs, lowest, candidates.byteOffset),
    draw: (cut, target) => kernel.draw(weights.byteOffset, pairs, cut, target),
  };
}
