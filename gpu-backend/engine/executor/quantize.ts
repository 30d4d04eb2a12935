import type { Matrix } from "../model/load-model.ts";

/** A matrix in int8 with a scale for each output: a weight is its value times the output's scale. */
export interface QuantizedMatrix {
  readonly outputs: number;
  readonly inputs: number;
  /** `[outputs, inputs]`, row-major, within ±127. */
  readonly values: Int8Array;
  readonly scales: Float32Array;
}

const WEIGHT_MAX = 127;
/** An output whose weights are all below this is zero; its scale could not be told from zero. */
const LARGEST_MIN = 1e-30;

/**
 * Quantizes each output of a matrix on its own. The largest weight of an output is hit exactly, so
 * the error of any is at most half of the output's scale.
 */
export function quantizeMatrix(matrix: Matrix): QuantizedMatrix {
  const { outputs, inputs, values: weights } = matrix;
  const values = new Int8Array(outputs * inputs);
  const scales = new Float32Array(outputs);
  for (let output = 0; output < outputs; output++) {
    const row = weights.subarray(output * inputs, (output + 1) * inputs);
    let largest = 0;
    for (const weight of row) largest = Math.max(largest, Math.abs(weight));
    const scale = largest < LARGEST_MIN ? 1 : Math.fround(largest / WEIGHT_MAX);
    scales[output] = scale;
    row.forEach((weight, input) => {
      values[output * inputs + input] = Math.round(weight / scale);
    });
  }
  return { outputs, inputs, values, scales };
}
