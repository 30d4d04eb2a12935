import { type Matrix, stretchesOf } from "../model/matrix.ts";

/** The matrix as `[inputs, outputs]`, the way ONNX multiplies rows. */
export function transposeMatrix(matrix: Matrix): Float32Array {
  const { outputs, inputs } = matrix;
  const transposed = new Float32Array(outputs * inputs);
  for (const { first, count, values } of stretchesOf(matrix)) {
    for (let row = 0; row < count; row++) {
      const output = first + row;
      for (let input = 0; input < inputs; input++) {
        transposed[input * outputs + output] = values[row * inputs + input] ?? 0;
      }
    }
  }
  return transposed;
}
