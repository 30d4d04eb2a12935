import { assert } from "../../../src/base/assert.ts";
import type { Matrix } from "../model/load-model.ts";

/** The matrix as `[inputs, outputs]`, the way ONNX multiplies rows. */
export function transposeMatrix(matrix: Matrix): Float32Array {
  const { outputs, inputs, values } = matrix;
  const transposed = new Float32Array(values.length);
  for (let output = 0; output < outputs; output++) {
    values.subarray(output * inputs, (output + 1) * inputs).forEach((weight, input) => {
      transposed[input * outputs + output] = weight;
    });
  }
  return transposed;
}

/** Stacks matrices with the same inputs, so that one product yields all of their outputs. */
export function stackMatrices(matrices: readonly Matrix[]): Matrix {
  const inputs = matrices[0]?.inputs ?? 0;
  assert(
    matrices.every((matrix) => matrix.inputs === inputs),
    "stacked matrices have the same inputs",
  );
  const outputs = matrices.reduce((sum, matrix) => sum + matrix.outputs, 0);
  const values = new Float32Array(outputs * inputs);
  let offset = 0;
  for (const matrix of matrices) {
    values.set(matrix.values, offset);
    offset += matrix.values.length;
  }
  return { outputs, inputs, values };
}
