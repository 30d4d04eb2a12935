import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { PooledMean } from "../../../gpu-backend/engine/pooled-mean.ts";

const SIZE = 3;
const states = fc
  .array(fc.float({ min: -8, max: 8, noNaN: true }), { minLength: SIZE, maxLength: 60 })
  .map((values) => Float32Array.from(values.slice(0, values.length - (values.length % SIZE))));

/** Pools states in chunks of these sizes; the last one takes what is left. */
function pool(hidden: Float32Array, chunks: readonly number[]): Float32Array {
  const mean = new PooledMean();
  const tokens = hidden.length / SIZE;
  let start = 0;
  for (const chunk of [...chunks, tokens]) {
    const end = Math.min(tokens, start + chunk);
    if (end > start) mean.add(start, end - start, hidden.slice(start * SIZE, end * SIZE));
    start = end;
  }
  expect(mean.pooledTokens).toBe(tokens);
  return mean.toUnitVector();
}

describe("PooledMean", () => {
  test("points where the mean does, with length 1", () => {
    expect(pool(Float32Array.of(1, 0, 4, 5, 0, 4), [])).toEqual(Float32Array.of(0.6, 0, 0.8));
  });

  test("is the same bits wherever the chunks are cut", () => {
    fc.assert(
      fc.property(states, fc.array(fc.integer({ min: 1, max: 7 })), (hidden, chunks) => {
        expect(pool(hidden, chunks)).toEqual(pool(hidden, []));
      }),
    );
  });

  test("counts no token twice that is computed again", () => {
    const hidden = Float32Array.of(1, 0, 0, 0, 1, 0, 0, 0, 1);
    const mean = new PooledMean();
    mean.add(0, 2, hidden.slice(0, 6));
    // Preempted, and computed again in other chunks.
    mean.add(0, 1, hidden.slice(0, 3));
    mean.add(1, 2, hidden.slice(3));
    expect(mean.toUnitVector()).toEqual(pool(hidden, []));
    expect(() => mean.add(4, 1, hidden.slice(0, 3))).toThrow("order");
  });

  test("of nothing but zeros is zero", () => {
    expect(pool(new Float32Array(6), [])).toEqual(new Float32Array(3));
  });
});
