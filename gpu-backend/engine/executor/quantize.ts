import { assert } from "../../../src/base/assert.ts";
import type { Matrix } from "../model/load-model.ts";

/** A matrix in int8 with one scale an output: `w[i][o] ≈ values[i][o] * scales[o]`. */
export interface QuantizedMatrix {
  readonly inputs: number;
  readonly outputs: number;
  /** `[inputs, outputs]`, as ONNX multiplies from the right. */
  readonly values: Int8Array;
  readonly scales: Float32Array;
}

/** An output whose weights are all below this is zero; its scale could not be told from zero. */
const LARGEST_MIN = 1e-30;

/**
 * Quantizes each output of the matrix on its own, to whole numbers within ±`weightMax`. The largest
 * weight of an output is hit exactly, so the error of any is at most half a scale.
 */
export function quantizeMatrix(matrix: Matrix, weightMax: number): QuantizedMatrix {
  const { outputs, inputs, values: weights } = matrix;
  assert(weightMax >= 1 && weightMax <= 127, `weights within ±${weightMax} do not fit int8`);
  const values = new Int8Array(inputs * outputs);
  const scales = new Float32Array(outputs);
  for (let output = 0; output < outputs; output++) {
    const row = weights.subarray(output * inputs, (output + 1) * inputs);
    let largest = 0;
    for (const weight of row) largest = Math.max(largest, Math.abs(weight));
    const scale = largest < LARGEST_MIN ? 1 : Math.fround(largest / weightMax);
    scales[output] = scale;
    row.forEach((weight, input) => {
      values[input * outputs + output] = Math.round(weight / scale);
    });
  }
  return { inputs, outputs, values, scales };
}

/** The matrix in f32 as `[inputs, outputs]`. */
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

/** Stacks matrices with the same inputs, so that one multiplication yields all of their outputs. */
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
