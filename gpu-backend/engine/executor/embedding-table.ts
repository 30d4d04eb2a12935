import { type Matrix, stretchesOf } from "../model/matrix.ts";

const FLOAT_BYTES = 4;

/**
 * The embedding of each token, outside of the runtime's heap: that ends at 4 GiB, and a step reads but a
 * few rows of this. What the checkpoint has in bfloat16 is kept so, since that loses nothing.
 */
export class EmbeddingTable {
  readonly byteLength: number;
  readonly #columns: number;
  readonly #scale: number;
  /** Either whole numbers, or the upper halves of them. */
  readonly #values: Float32Array | Uint16Array;

  /** Reads a matrix of `[tokens, columns]`; rows come out times `scale`. */
  constructor(matrix: Matrix, scale: number) {
    const { outputs, inputs } = matrix;
    this.#columns = inputs;
    this.#scale = scale;
    this.#values = matrix.isBfloat16
      ? new Uint16Array(outputs * inputs)
      : new Float32Array(outputs * inputs);
    this.byteLength = this.#values.byteLength;
    for (const { first, values } of stretchesOf(matrix)) this.#keep(values, first * inputs);
  }

  /** Writes each token's row, packed. */
  lookUp(tokens: Int32Array, rows: Float32Array): void {
    const columns = this.#columns;
    for (let row = 0; row < tokens.length; row++) {
      this.#copyRow((tokens[row] ?? 0) * columns, rows, row * columns);
    }
    if (this.#scale === 1) return;
    for (let place = 0; place < rows.length; place++) {
      rows[place] = (rows[place] ?? 0) * this.#scale;
    }
  }

  #copyRow(start: number, rows: Float32Array, target: number): void {
    const values = this.#values;
    const columns = this.#columns;
    if (values instanceof Float32Array) {
      rows.set(values.subarray(start, start + columns), target);
      return;
    }
    const bits = new Uint32Array(rows.buffer, rows.byteOffset + target * FLOAT_BYTES, columns);
    for (let column = 0; column < columns; column++) {
      bits[column] = (values[start + column] ?? 0) << 16;
    }
  }

  #keep(floats: Float32Array, start: number): void {
    const values = this.#values;
    if (values instanceof Float32Array) {
      values.set(floats, start);
      return;
    }
    const bits = new Uint32Array(floats.buffer, floats.byteOffset, floats.length);
    for (let place = 0; place < bits.length; place++) {
      values[start + place] = (bits[place] ?? 0) >>> 16;
    }
  }
}
