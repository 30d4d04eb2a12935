import { describe, expect, test } from "vitest";
import {
  exactWeightMax,
  type Int8Multiply,
  int8MultiplyOn,
} from "../../../../gpu-backend/engine/executor/check-int8.ts";
import { RUNTIME_CANDIDATES } from "../../../../gpu-backend/engine/executor/open-runtime.ts";

/** Multiplies as a machine would that adds `pair` to its sum for every two neighbouring products. */
const multiplyWith =
  (pair: (sum: number) => number): Int8Multiply =>
  async ({ activations, weights, rows, inputs, outputs }) =>
    new Float32Array(rows * outputs).map((_, index) => {
      const row = Math.floor(index / outputs);
      let total = 0;
      let weightSum = 0;
      const unsigned = (input: number) => (activations[row * inputs + input] ?? 0) + 128;
      const weight = (input: number) => weights[input * outputs + (index % outputs)] ?? 0;
      for (let input = 0; input < inputs; input += 2) {
        const products = unsigned(input) * weight(input) + unsigned(input + 1) * weight(input + 1);
        total += pair(products);
        weightSum += weight(input) + weight(input + 1);
      }
      return total - 128 * weightSum;
    });

const saturate16 = (sum: number) => Math.max(-32_768, Math.min(32_767, sum));

describe("exactWeightMax", () => {
  test("an exact machine takes all of int8", async () => {
    expect(await exactWeightMax(multiplyWith((sum) => sum))).toBe(127);
  });

  test("a machine that saturates pairs in 16 bits takes half of int8", async () => {
    expect(await exactWeightMax(multiplyWith(saturate16))).toBe(63);
  });

  test("a machine that saturates sums only at the lower end is noticed too", async () => {
    expect(await exactWeightMax(multiplyWith((sum) => Math.max(-32_768, sum)))).toBe(63);
  });

  test("a machine that is inexact at any size takes none", async () => {
    expect(await exactWeightMax(multiplyWith((sum) => sum & ~1023))).toBeUndefined();
  });

  test.each(RUNTIME_CANDIDATES)("the $kind runtime here is exact", async ({ open }) => {
    const runtime = await open();
    expect(await exactWeightMax(int8MultiplyOn(runtime))).toBeGreaterThanOrEqual(63);
    await runtime.close();
  });
});
