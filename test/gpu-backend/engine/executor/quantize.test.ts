import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  quantizeMatrix,
  stackMatrices,
  transposeMatrix,
} from "../../../../gpu-backend/engine/executor/quantize.ts";
import type { Matrix } from "../../../../gpu-backend/engine/model/load-model.ts";

const aMatrix = fc
  .tuple(fc.integer({ min: 1, max: 7 }), fc.integer({ min: 1, max: 9 }))
  .chain(([outputs, inputs]) =>
    fc
      .array(fc.float({ noNaN: true, min: -8, max: 8 }), {
        minLength: outputs * inputs,
        maxLength: outputs * inputs,
      })
      .map((values): Matrix => ({ outputs, inputs, values: Float32Array.from(values) })),
  );

const matrixOf = (rows: readonly (readonly number[])[]): Matrix => ({
  outputs: rows.length,
  inputs: rows[0]?.length ?? 0,
  values: Float32Array.from(rows.flat()),
});

describe("quantizeMatrix", () => {
  test("no weight is off by more than half of its output's scale", () => {
    fc.assert(
      fc.property(aMatrix, fc.constantFrom(127, 63), (matrix, weightMax) => {
        const { values, scales } = quantizeMatrix(matrix, weightMax);
        matrix.values.forEach((weight, index) => {
          const output = Math.floor(index / matrix.inputs);
          const input = index % matrix.inputs;
          const scale = scales[output] ?? 0;
          const restored = (values[input * matrix.outputs + output] ?? 0) * scale;
          expect(Math.abs(restored - weight)).toBeLessThanOrEqual(scale * 0.50001);
        });
      }),
    );
  });

  test("each output uses the whole range and nothing beyond it", () => {
    const matrix = matrixOf([
      [0.6, -1, 0.25],
      [300, 100, -30],
    ]);
    const { values, scales } = quantizeMatrix(matrix, 63);
    expect([...values]).toEqual([38, 63, -63, 21, 16, -6]);
    expect(scales[0]).toBeCloseTo(1 / 63, 7);
    expect(scales[1]).toBeCloseTo(300 / 63, 5);
  });

  test.each([[[0, 0]], [[2 ** -149, -(2 ** -130)]]])("an output of %j is zero", (row) => {
    const { values, scales } = quantizeMatrix(matrixOf([row]), 127);
    expect([...values].map(Math.abs)).toEqual([0, 0]);
    expect([...scales]).toEqual([1]);
  });

  test("a limit that int8 does not hold is a bug", () => {
    expect(() => quantizeMatrix(matrixOf([[1]]), 128)).toThrow("do not fit int8");
  });
});

describe("transposeMatrix", () => {
  test("inputs become rows", () => {
    const transposed = transposeMatrix(
      matrixOf([
        [1, 2, 3],
        [4, 5, 6],
      ]),
    );
    expect([...transposed]).toEqual([1, 4, 2, 5, 3, 6]);
  });
});

describe("stackMatrices", () => {
  test("outputs follow one another in order", () => {
    const stacked = stackMatrices([
      matrixOf([[1, 2]]),
      matrixOf([
        [3, 4],
        [5, 6],
      ]),
    ]);
    expect(stacked).toEqual(
      matrixOf([
        [1, 2],
        [3, 4],
        [5, 6],
      ]),
    );
  });

  test("matrices with other inputs cannot be stacked", () => {
    expect(() => stackMatrices([matrixOf([[1, 2]]), matrixOf([[3]])])).toThrow("same inputs");
  });
});
