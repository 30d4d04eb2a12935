import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { quantizeMatrix } from "../../../../gpu-backend/engine/executor/quantize.ts";
import { holdMatrix } from "../../../../gpu-backend/engine/model/matrix.ts";
import { matrixOf } from "./random-model.ts";

const aMatrix = fc
  .tuple(fc.integer({ min: 1, max: 7 }), fc.integer({ min: 1, max: 9 }))
  .chain(([outputs, inputs]) =>
    fc
      .array(fc.float({ noNaN: true, min: -8, max: 8 }), {
        minLength: outputs * inputs,
        maxLength: outputs * inputs,
      })
      .map((values) => holdMatrix(outputs, inputs, Float32Array.from(values))),
  );

describe("quantizeMatrix", () => {
  test("no weight is off by more than half of its output's scale", () => {
    fc.assert(
      fc.property(aMatrix, (matrix) => {
        const { values, scales } = quantizeMatrix(matrix);
        matrix.values.forEach((weight, index) => {
          const scale = scales[Math.floor(index / matrix.inputs)] ?? 0;
          const restored = (values[index] ?? 0) * scale;
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
    const { values, scales } = quantizeMatrix(matrix);
    expect([...values]).toEqual([76, -127, 32, 127, 42, -13]);
    expect(scales[0]).toBeCloseTo(1 / 127, 7);
    expect(scales[1]).toBeCloseTo(300 / 127, 5);
  });

  test.each([[[0, 0]], [[2 ** -149, -(2 ** -130)]]])("an output of %j is zero", (row) => {
    const { values, scales } = quantizeMatrix(matrixOf([row]));
    expect([...values].map(Math.abs)).toEqual([0, 0]);
    expect([...scales]).toEqual([1]);
  });
});
