import type { SamplingMath } from "../sampling-math.ts";
import { instantiateKernel } from "./kernel.ts";
import { OwnMemory } from "./own-memory.ts";
import { createWasmMemory } from "./wasm-memory.ts";

/** The exports of `gpu-backend/kernels/sampling.ts`; addresses are bytes in its memory. */
interface Kernel {
  weigh(
    scores: number,
    pairs: number,
    best: number,
    inverseTemperature: number,
    cut: number,
    weights: number,
  ): number;
  sumFrom(weights: number, pairs: number, cut: number): number;
}

const LANES = 2;

/** The arithmetic of sampling by our own kernel, in a memory of its own. */
export function createSamplingKernel(vocabularyTokens: number): SamplingMath {
  const own = new OwnMemory(createWasmMemory());
  const kernel = instantiateKernel<Kernel>("sampling", own.memory, ["weigh", "sumFrom"]);
  const pairs = Math.ceil(vocabularyTokens / LANES);
  const floats = () => {
    const address = own.allocate(pairs * LANES * Float64Array.BYTES_PER_ELEMENT);
    return new Float64Array(own.memory.buffer, address, pairs * LANES);
  };
  const [scores, weights] = [floats(), floats()];
  // Nobody writes the token that pads an odd vocabulary, and it never weighs anything.
  scores.fill(-Infinity);
  return {
    scores: scores.subarray(0, vocabularyTokens),
    weights: weights.subarray(0, vocabularyTokens),
    weigh: (best, inverseTemperature, cut) =>
      kernel.weigh(scores.byteOffset, pairs, best, inverseTemperature, cut, weights.byteOffset),
    sumFrom: (cut) => kernel.sumFrom(weights.byteOffset, pairs, cut),
  };
}
