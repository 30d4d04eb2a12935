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
 * so that one instruction multiplies and adds the pairs of four outputs. Inputs are padded with zeros
 * to pairs, and outputs to 16, since a single row takes two tiles at a time.
 */

import { addProducts } from "./whole-numbers";

export { quantizeRows, quantizeToBytes, scaleSums } from "./quantize-rows";

const TILE_OUTPUTS = 8;
/** A pair of inputs of one tile. */
const PAIR_BYTES: usize = 16;

/** The product at hand; see `multiply`. */
let rowBytes: usize = 0;
let resultBytes: usize = 0;
let spare: usize = 0;

/**
 * Multiplies quantized rows of `pairs` pairs with a matrix and writes rows of `outputs` floats.
 * `outputScales` is padded like the outputs; `scratch` has room for 8 floats.
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
  // Two tiles stay in the fastest cache while all rows pass by.
  for (let first = 0; first < outputs; first += 2 * TILE_OUTPUTS) {
    const room = outputs - first;
    if (fours > 0) {
      multiplyFours(quantized, rowScales, fours, weights, outputScales, room, results);
    }
    if (fours > 0 && room > TILE_OUTPUTS) {
      multiplyFours(
        quantized,
        rowScales,
        fours,
        weights + tileBytes,
        outputScales + 32,
        room - TILE_OUTPUTS,
        results + 32,
      );
    }
    for (let i: usize = (<usize>fours) << 2; i < <usize>rowCount; i++) {
      multiplyOne(
        quantized + i * rowBytes,
        rowScales + (i << 2),
        weights,
        weights + tileBytes,
        outputScales,
        room,
        results + i * resultBytes,
      );
    }
    weights += tileBytes << 1;
    outputScales += 64;
    results += 64;
  }
}

/** Rows in fours by one tile: each pair of weights is loaded once for four rows. */
function multiplyFours(
  rows: usize,
  rowScales: usize,
  fours: i32,
  tile: usize,
  outputScales: usize,
  room: i32,
  results: usize,
): void {
  const second = rowBytes;
  const third = rowBytes << 1;
  const fourth = rowBytes * 3;
  const lowScales = v128.load(outputScales);
  const highScales = v128.load(outputScales, 16);
  for (let i = 0; i < fours; i++) {
    let row = rows;
    let weights = tile;
    const end = row + rowBytes;
    let a0 = i32x4.splat(0);
    let a1 = a0;
    let b0 = a0;
    let b1 = a0;
    let c0 = a0;
    let c1 = a0;
    let d0 = a0;
    let d1 = a0;
    while (row < end) {
      const w0 = v128.load8x8_s(weights);
      const w1 = v128.load8x8_s(weights, 8);
      const a = v128.load32_splat(row);
      a0 = addProducts(a0, w0, a);
      a1 = addProducts(a1, w1, a);
      const b = v128.load32_splat(row + second);
      b0 = addProducts(b0, w0, b);
      b1 = addProducts(b1, w1, b);
      const c = v128.load32_splat(row + third);
      c0 = addProducts(c0, w0, c);
      c1 = addProducts(c1, w1, c);
      const d = v128.load32_splat(row + fourth);
      d0 = addProducts(d0, w0, d);
      d1 = addProducts(d1, w1, d);
      row += 4;
      weights += PAIR_BYTES;
    }
    storeTile(results, a0, a1, load<f32>(rowScales), lowScales, highScales, room);
    results += resultBytes;
    storeTile(results, b0, b1, load<f32>(rowScales, 4), lowScales, highScales, room);
    results += resultBytes;
    storeTile(results, c0, c1, load<f32>(rowScales, 8), lowScales, highScales, room);
    results += resultBytes;
    storeTile(results, d0, d1, load<f32>(rowScales, 12), lowScales, highScales, room);
    results += resultBytes;
    rows += rowBytes << 2;
    rowScales += 16;
  }
}

/** One row by two tiles: with a single one the processor would wait for its own sums. */
function multiplyOne(
  row: usize,
  rowScale: usize,
  weights: usize,
  weights2: usize,
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
    const pair = v128.load32_splat(row);
    a0 = addProducts(a0, v128.load8x8_s(weights), pair);
    a1 = addProducts(a1, v128.load8x8_s(weights, 8), pair);
    b0 = addProducts(b0, v128.load8x8_s(weights2), pair);
    b1 = addProducts(b1, v128.load8x8_s(weights2, 8), pair);
    row += 4;
    weights += PAIR_BYTES;
    weights2 += PAIR_BYTES;
  }
  const scale = load<f32>(rowScale);
  const low = v128.load(outputScales);
  storeTile(result, a0, a1, scale, low, v128.load(outputScales, 16), room);
  if (room > TILE_OUTPUTS) {
    const low2 = v128.load(outputScales, 32);
    const rest = room - TILE_OUTPUTS;
    storeTile(result + 32, b0, b1, scale, low2, v128.load(outputScales, 48), rest);
  }
}

/** Scales the sums of 8 outputs and stores as many of them as the matrix has. */
function storeTile(
  result: usize,
  low: v128,
  high: v128,
  rowScale: f32,
  lowScales: v128,
  highScales: v128,
  room: i32,
): void {
  const scale = f32x4.splat(rowScale);
  const first = f32x4.mul(f32x4.mul(f32x4.convert_i32x4_s(low), scale), lowScales);
  const second = f32x4.mul(f32x4.mul(f32x4.convert_i32x4_s(high), scale), highScales);
  if (room < TILE_OUTPUTS) {
    storePart(result, first, second, room);
  } else {
    v128.store(result, first);
    v128.store(result, second, 16);
  }
}

function storePart(result: usize, first: v128, second: v128, room: i32): void {
  v128.store(spare, first);
  v128.store(spare, second, 16);
  memory.copy(result, spare, (<usize>room) << 2);
}
