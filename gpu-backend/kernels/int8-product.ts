/**
 * Products of f32 rows with int8 matrices, in AssemblyScript with 128-bit SIMD. `build.mjs` compiles
 * it to the committed `int8-product.wasm`. The memory is the caller's; nothing here allocates.
 *
 * A row is quantized to whole numbers within ±127 times a scale of its own. Sums of products are then
 * integers, hence exact in any order, and a row's result depends on nothing but the row: four rows at
 * a time or one, the bits are the same.
 *
 * Weights lie in tiles of 8 outputs, a pair of inputs after the other:
 *
 *     [outputs / 8][inputs / 2][8 outputs][2 inputs], int8
 *
 * so that one instruction multiplies and adds the pairs of four outputs, and any product reads the whole
 * matrix from front to back. Inputs are padded with zeros to two pairs, and outputs to tiles. Rows lie as
 * `quantizeRows` says.
 */

import { addProducts } from "./whole-numbers";

export { quantizeRows, quantizeToBytes, scaleSums } from "./quantize-rows";

const TILE_OUTPUTS = 8;
/** A pair of inputs of one tile. */
const PAIR_BYTES: usize = 16;
/** A pair of inputs of four rows. */
const FOURS_PAIR_BYTES: usize = 16;

/** The product at hand; see `multiply`. */
let rowBytes: usize = 0;
let resultBytes: usize = 0;
let spare: usize = 0;

/**
 * Multiplies quantized rows of `pairs` pairs with a matrix and writes rows of `outputs` floats.
 * `outputScales` is padded like the outputs; `scratch` has room for 32 floats.
 */
export function multiply(
  quantized: usize,
  rowScales: usize,
  rowCount: i32,
  pairs: i32,
  weights: usize,
  outputScales: usize,
  outputs: i32,
  results: usize,
  scratch: usize,
): void {
  rowBytes = (<usize>pairs) << 2;
  resultBytes = (<usize>outputs) << 2;
  spare = scratch;
  const tileBytes = <usize>pairs * PAIR_BYTES;
  const fours = rowCount >> 2;
  // A tile stays in the fastest cache while all rows pass by.
  for (let first = 0; first < outputs; first += TILE_OUTPUTS) {
    const room = outputs - first;
    multiplyFours(quantized, rowScales, fours, weights, outputScales, room, results);
    for (let i: usize = (<usize>fours) << 2; i < <usize>rowCount; i++) {
      const row = quantized + i * rowBytes;
      const result = results + i * resultBytes;
      multiplyOne(row, rowScales + (i << 2), weights, outputScales, room, result);
    }
    weights += tileBytes;
    outputScales += 32;
    results += 32;
  }
}

/** Rows in fours by a tile, of whose outputs the matrix has no more than `room`. */
function multiplyFours(
  rows: usize,
  rowScales: usize,
  fours: i32,
  tile: usize,
  outputScales: usize,
  room: i32,
  results: usize,
): void {
  if (room >= TILE_OUTPUTS) {
    multiplyWhole(rows, rowScales, fours, tile, outputScales, results, resultBytes);
    return;
  }
  for (let i = 0; i < fours; i++) {
    multiplyWhole(rows, rowScales, 1, tile, outputScales, spare, 32);
    for (let row: usize = 0; row < 4; row++) {
      memory.copy(results, spare + (row << 5), (<usize>room) << 2);
      results += resultBytes;
    }
    rows += rowBytes << 2;
    rowScales += 16;
  }
}

/** Rows in fours by all of a tile: each pair of weights is loaded once for four rows. */
function multiplyWhole(
  rows: usize,
  rowScales: usize,
  fours: i32,
  tile: usize,
  outputScales: usize,
  results: usize,
  resultStride: usize,
): void {
  const low = v128.load(outputScales);
  const high = v128.load(outputScales, 16);
  for (let i = 0; i < fours; i++) {
    let weights = tile;
    const end = rows + (rowBytes << 2);
    let a0 = i32x4.splat(0);
    let a1 = a0;
    let b0 = a0;
    let b1 = a0;
    let c0 = a0;
    let c1 = a0;
    let d0 = a0;
    let d1 = a0;
    while (rows < end) {
      const w0 = v128.load8x8_s(weights);
      const w1 = v128.load8x8_s(weights, 8);
      const a = v128.load32_splat(rows);
      a0 = addProducts(a0, w0, a);
      a1 = addProducts(a1, w1, a);
      const b = v128.load32_splat(rows, 4);
      b0 = addProducts(b0, w0, b);
      b1 = addProducts(b1, w1, b);
      const c = v128.load32_splat(rows, 8);
      c0 = addProducts(c0, w0, c);
      c1 = addProducts(c1, w1, c);
      const d = v128.load32_splat(rows, 12);
      d0 = addProducts(d0, w0, d);
      d1 = addProducts(d1, w1, d);
      rows += FOURS_PAIR_BYTES;
      weights += PAIR_BYTES;
    }
    storeTile(results, a0, a1, load<f32>(rowScales), low, high);
    results += resultStride;
    storeTile(results, b0, b1, load<f32>(rowScales, 4), low, high);
    results += resultStride;
    storeTile(results, c0, c1, load<f32>(rowScales, 8), low, high);
    results += resultStride;
    storeTile(results, d0, d1, load<f32>(rowScales, 12), low, high);
    results += resultStride;
    rowScales += 16;
  }
}

/** One row by a tile, two pairs at a time: with one the processor would wait for its own sums. */
function multiplyOne(
  row: usize,
  rowScale: usize,
  weights: usize,
  outputScales: usize,
  room: i32,
  result: usize,
): void {
  const end = row + rowBytes;
  let a0 = i32x4.splat(0);
  let a1 = a0;
  let b0 = a0;
  let b1 = a0;
  while (row < end) {
    const a = v128.load32_splat(row);
    a0 = addProducts(a0, v128.load8x8_s(weights), a);
    a1 = addProducts(a1, v128.load8x8_s(weights, 8), a);
    const b = v128.load32_splat(row, 4);
    b0 = addProducts(b0, v128.load8x8_s(weights, 16), b);
    b1 = addProducts(b1, v128.load8x8_s(weights, 24), b);
    row += 8;
    weights += 2 * PAIR_BYTES;
  }
  const low = v128.load(outputScales);
  const high = v128.load(outputScales, 16);
  const target = room < TILE_OUTPUTS ? spare : result;
  storeTile(target, i32x4.add(a0, b0), i32x4.add(a1, b1), load<f32>(rowScale), low, high);
  if (target === spare) memory.copy(result, spare, (<usize>room) << 2);
}

/** Scales the sums of 8 outputs and stores them. */
function storeTile(
  result: usize,
  low: v128,
  high: v128,
  rowScale: f32,
  lowScales: v128,
  highScales: v128,
): void {
  const scale = f32x4.splat(rowScale);
  v128.store(result, f32x4.mul(f32x4.mul(f32x4.convert_i32x4_s(low), scale), lowScales));
  v128.store(result, f32x4.mul(f32x4.mul(f32x4.convert_i32x4_s(high), scale), highScales), 16);
}
