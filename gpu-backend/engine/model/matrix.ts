import { assert } from "../../../src/base/assert.ts";

/**
 * A matrix as the checkpoint stores it: `[outputs, inputs]`, row-major, so `y = W x`. Its rows are read
 * when they are wanted, so a model need never lie in memory beside what is made of it.
 */
export interface Matrix {
  readonly outputs: number;
  readonly inputs: number;
  /** Whether 16 bits hold each of its values, since the file has no more. */
  readonly isBfloat16?: boolean;
  /** So many rows from `first` on, as f32. The next call, of any matrix of the model, may overwrite them. */
  rows(first: number, count: number): Float32Array;
}

/** A matrix that is all in memory. */
export interface HeldMatrix extends Matrix {
  readonly values: Float32Array;
}

/** What is read at once; large enough for the disk, small beside any model. */
const STRETCH_BYTES = 4 << 20;

/** Makes a matrix of values in memory. */
export function holdMatrix(outputs: number, inputs: number, values: Float32Array): HeldMatrix {
  assert(values.length === outputs * inputs, `a matrix has ${outputs} times ${inputs} values`);
  const rows = (first: number, count: number) =>
    values.subarray(first * inputs, (first + count) * inputs);
  return { outputs, inputs, values, rows };
}

/** Stacks matrices with the same inputs, so that one product yields all of their outputs. */
export function stackMatrices(matrices: readonly Matrix[]): Matrix {
  const inputs = matrices[0]?.inputs ?? 0;
  assert(
    matrices.every((matrix) => matrix.inputs === inputs),
    "stacked matrices have the same inputs",
  );
  const outputs = matrices.reduce((sum, matrix) => sum + matrix.outputs, 0);
  const rows = (first: number, count: number) => {
    const stacked = new Float32Array(count * inputs);
    let matrixStart = 0;
    for (const matrix of matrices) {
      const from = Math.max(first - matrixStart, 0);
      const to = Math.min(first + count - matrixStart, matrix.outputs);
      if (from < to) {
        stacked.set(matrix.rows(from, to - from), (matrixStart + from - first) * inputs);
      }
      matrixStart += matrix.outputs;
    }
    return stacked;
  };
  return { outputs, inputs, rows };
}

/** Neighbouring rows of a matrix. */
export interface Stretch {
  readonly first: number;
  readonly count: number;
  readonly values: Float32Array;
}

/** How many rows are read at once: a multiple of `step`. */
export function stretchLengthOf(rowBytes: number, step: number): number {
  return Math.max(1, Math.floor(STRETCH_BYTES / rowBytes / step)) * step;
}

/** Reads a matrix front to back, a few MiB at a time; all stretches but the last have a multiple of `step` rows. */
export function* stretchesOf(matrix: Matrix, step = 1): Generator<Stretch> {
  const length = stretchLengthOf(matrix.inputs * Float32Array.BYTES_PER_ELEMENT, step);
  for (let first = 0; first < matrix.outputs; first += length) {
    const count = Math.min(length, matrix.outputs - first);
    yield { first, count, values: matrix.rows(first, count) };
  }
}

/** All rows at once, for whoever needs a copy of them. */
export function readWhole(matrix: Matrix): Float32Array {
  const values = new Float32Array(matrix.outputs * matrix.inputs);
  for (const stretch of stretchesOf(matrix))
    values.set(stretch.values, stretch.first * matrix.inputs);
  return values;
}
