/**
 * What only some models do between two products, in AssemblyScript with 128-bit SIMD: biases, norms of
 * heads, gates with GELU. `build.mjs` compiles it to the committed `row-variants.wasm`. The memory is
 * the caller's; nothing here allocates.
 *
 * Every row runs through the same operations in the same order, whatever other rows there are.
 */

import { GELU, gateRows } from "./gate-rows";
import { add, normalize } from "./row-operations";

/** Adds `columns` floats to each row, in place. */
export function addBias(rows: usize, rowCount: i32, columns: i32, bias: usize): void {
  for (let row = 0; row < rowCount; row++) {
    add(rows, bias, 1, columns);
    rows += (<usize>columns) << 2;
  }
}

/** Normalizes each of the first `heads` heads of each row, in place, all with the same weights. */
export function normalizeHeads(
  rows: usize,
  rowBytes: usize,
  rowCount: i32,
  heads: i32,
  dimensions: i32,
  weights: usize,
  epsilon: f32,
): void {
  for (let row = 0; row < rowCount; row++) {
    normalize(rows, heads, dimensions, weights, epsilon, rows);
    rows += rowBytes;
  }
}

/** Computes GELU(gate) × up; see `gateRows`. */
export function geluGate(gatesAndUps: usize, rowCount: i32, columns: i32, results: usize): void {
  gateRows(GELU, gatesAndUps, rowCount, columns, results);
}
