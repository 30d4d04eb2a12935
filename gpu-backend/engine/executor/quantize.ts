import { type Matrix, stretchesOf } from "../model/matrix.ts";

/** A matrix in int8 with a scale for each output: a weight is its value times the output's scale. */
export interface QuantizedMatrix {
  readonly outputs: number;
  readonly inputs: number;
  /** `[outputs, inputs]`, row-major, within ±127. */
  readonly values: Int8Array;
  readonly scales: Float32Array;
}

/** Neighbouring outputs of a matrix, from `first` on. */
export interface QuantizedStretch extends QuantizedMatrix {
  readonly first: number;
}

/**
 * Yields a matrix in int8, stretch by stretch; each of a multiple of `step` outputs but the last. What
 * comes twice, holds the second time.
 */
export type Quantizer = (matrix: Matrix, step: number) => Iterable<QuantizedStretch>;

const WEIGHT_MAX = 127;
/** An output whose weights are all below this is zero; its scale could not be told from zero. */
const LARGEST_MIN = 1e-30;

/**
 * Quantizes each output of a matrix on its own. The largest weight of an output is hit exactly, so
 * the error of any is at most half of the output's scale.
 */
export function quantizeMatrix(matrix: Matrix): QuantizedMatrix {
  const { outputs, inputs } = matrix;
  const values = new Int8Array(outputs * inputs);
  const scales = new Float32Array(outputs);
  for (const stretch of quantizeStretches(matrix, 1)) {
    values.set(stretch.values, stretch.first * inputs);
    scales.set(stretch.scales, stretch.first);
  }
  return { outputs, inputs, values, scales };
}

/** The `Quantizer` that computes what it yields. */
export function* quantizeStretches(matrix: Matrix, step: number): Generator<QuantizedStretch> {
  const { inputs } = matrix;
  for (const { first, count, values: weights } of stretchesOf(matrix, step)) {
    const values = new Int8Array(count * inputs);
    const scales = new Float32Array(count);
    for (let output = 0; output < count; output++) {
      const start = output * inputs;
      const end = start + inputs;
      let largest = 0;
      for (let place = start; place < end; place++) {
        largest = Math.max(largest, Math.abs(weights[place] ?? 0));
      }
      const scale = largest < LARGEST_MIN ? 1 : Math.fround(largest / WEIGHT_MAX);
      scales[output] = scale;
      for (let place = start; place < end; place++) {
        values[place] = Math.round((weights[place] ?? 0) / scale);
      }
    }
    yield { first, outputs: count, inputs, values, scales };
  }
}
