import { assert } from "../../src/base/assert.ts";

/**
 * The mean of a prompt's hidden states, gathered chunk by chunk.
 *
 * States are added one by one in the order of the prompt, in f64, so the sum has the same bits
 * wherever the chunks are cut. What a preempted prefill has gathered stays.
 */
export class PooledMean {
  #sum = new Float64Array(0);
  #pooledTokens = 0;

  /** Leading tokens whose states are in the sum. */
  get pooledTokens(): number {
    return this.#pooledTokens;
  }

  /** Takes the states of `tokens` tokens from `startPosition` on, `[tokens, size]`. */
  add(startPosition: number, tokens: number, hidden: Float32Array): void {
    assert(startPosition <= this.#pooledTokens, "A prompt is pooled in the order of its tokens");
    const size = hidden.length / tokens;
    if (this.#pooledTokens === 0) this.#sum = new Float64Array(size);
    for (let token = this.#pooledTokens - startPosition; token < tokens; token++) {
      for (let dimension = 0; dimension < size; dimension++) {
        const value = hidden[token * size + dimension] ?? 0;
        this.#sum[dimension] = (this.#sum[dimension] ?? 0) + value;
      }
      this.#pooledTokens += 1;
    }
  }

  /** The mean scaled to length 1, where its own length makes no difference; zeros stay zeros. */
  toUnitVector(): Float32Array {
    const length = Math.sqrt(this.#sum.reduce((squares, value) => squares + value * value, 0));
    return Float32Array.from(this.#sum, (value) => (length > 0 ? value / length : 0));
  }
}
