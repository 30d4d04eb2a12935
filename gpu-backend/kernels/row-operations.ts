/**
 * What lies between the products of a transformer, in AssemblyScript with 128-bit SIMD: sums,
 * norms and gates of f32 rows. `build.mjs` compiles it to the committed `row-operations.wasm`. The
 * memory is the caller's; nothing here allocates.
 *
 * Every row runs through the same operations in the same order, whatever other rows there are.
 * Rows of any length may be given: what is left behind the last whole vector is computed one by one.
 */

import { gateRows, SILU } from "./gate-rows";

/** Adds rows of `columns` floats to `sums`, in place. */
export function add(sums: usize, values: usize, rowCount: i32, columns: i32): void {
  const end = sums + ((<usize>(rowCount * columns)) << 2);
  for (; sums + 16 <= end; sums += 16) {
    v128.store(sums, f32x4.add(v128.load(sums), v128.load(values)));
    values += 16;
  }
  for (; sums < end; sums += 4) {
    f32.store(sums, f32.load(sums) + f32.load(values));
    values += 4;
  }
}

/**
 * Divides each row by the root of the mean of its squares, and multiplies it with `weights`. `results`
 * may be `rows`.
 */
export function normalize(
  rows: usize,
  rowCount: i32,
  columns: i32,
  weights: usize,
  epsilon: f32,
  results: usize,
): void {
  const rowBytes = (<usize>columns) << 2;
  const wholeBytes = rowBytes & ~15;
  for (let row = 0; row < rowCount; row++) {
    const mean = sumOfSquares(rows, rowBytes) / <f32>columns;
    const factor: f32 = 1 / Mathf.sqrt(mean + epsilon);
    const factors = f32x4.splat(factor);
    let offset: usize = 0;
    for (; offset < wholeBytes; offset += 16) {
      const scaled = f32x4.mul(v128.load(rows + offset), factors);
      v128.store(results + offset, f32x4.mul(scaled, v128.load(weights + offset)));
    }
    for (; offset < rowBytes; offset += 4) {
      f32.store(results + offset, f32.load(rows + offset) * factor * f32.load(weights + offset));
    }
    rows += rowBytes;
    results += rowBytes;
  }
}

function sumOfSquares(row: usize, rowBytes: usize): f32 {
  const end = row + rowBytes;
  let a = f32x4.splat(0);
  let b = a;
  for (; row + 32 <= end; row += 32) {
    const x = v128.load(row);
    const y = v128.load(row, 16);
    a = f32x4.add(a, f32x4.mul(x, x));
    b = f32x4.add(b, f32x4.mul(y, y));
  }
  a = f32x4.add(a, b);
  let sum =
    f32x4.extract_lane(a, 0) +
    f32x4.extract_lane(a, 1) +
    (f32x4.extract_lane(a, 2) + f32x4.extract_lane(a, 3));
  for (; row < end; row += 4) {
    const value = f32.load(row);
    sum += value * value;
  }
  return sum;
}

/** Computes SiLU(gate) × up; see `gateRows`. */
export function gate(gatesAndUps: usize, rowCount: i32, columns: i32, results: usize): void {
  gateRows(SILU, gatesAndUps, rowCount, columns, results);
}
