/**
 * What only some models do between two products, in AssemblyScript with 128-bit SIMD: biases, norms of
 * heads, gates with GELU. `build.mjs` compiles it to the committed `row-variants.wasm`. The memory is
 * the caller's; nothing here allocates.
 *
 * Every row runs through the same operations in the same order, whatever other rows there are.
 */

import { powerOfTwo } from "./power-of-two";

const LOG2_E: f32 = 1.44269504;
/** Of GELU by tanh: 2 × sqrt(2 / pi), and the weight of the cube. */
const GELU_SLOPE: f32 = 1.5957691;
const GELU_CUBIC: f32 = 0.044715;

/** Adds `columns` floats to each row, in place. */
export function addBias(rows: usize, rowCount: i32, columns: i32, bias: usize): void {
  const rowBytes = (<usize>columns) << 2;
  const wholeBytes = rowBytes & ~15;
  for (let row = 0; row < rowCount; row++) {
    let offset: usize = 0;
    for (; offset < wholeBytes; offset += 16) {
      v128.store(rows + offset, f32x4.add(v128.load(rows + offset), v128.load(bias + offset)));
    }
    for (; offset < rowBytes; offset += 4) {
      f32.store(rows + offset, f32.load(rows + offset) + f32.load(bias + offset));
    }
    rows += rowBytes;
  }
}

/**
 * RMS norm of each of the first `heads` heads of each row, in place, all with the same weights. A head
 * has a multiple of 16 dimensions.
 */
export function normalizeHeads(
  rows: usize,
  rowBytes: usize,
  rowCount: i32,
  heads: i32,
  dimensions: i32,
  weights: usize,
  epsilon: f32,
): void {
  const headBytes = (<usize>dimensions) << 2;
  for (let row = 0; row < rowCount; row++) {
    let head = rows;
    for (let index = 0; index < heads; index++) {
      const mean = sumOfSquares(head, headBytes) / <f32>dimensions;
      const factors = f32x4.splat(<f32>1 / Mathf.sqrt(mean + epsilon));
      for (let offset: usize = 0; offset < headBytes; offset += 16) {
        const scaled = f32x4.mul(v128.load(head + offset), factors);
        v128.store(head + offset, f32x4.mul(scaled, v128.load(weights + offset)));
      }
      head += headBytes;
    }
    rows += rowBytes;
  }
}

function sumOfSquares(head: usize, headBytes: usize): f32 {
  const end = head + headBytes;
  let a = f32x4.splat(0);
  let b = a;
  for (; head < end; head += 32) {
    const x = v128.load(head);
    const y = v128.load(head, 16);
    a = f32x4.add(a, f32x4.mul(x, x));
    b = f32x4.add(b, f32x4.mul(y, y));
  }
  a = f32x4.add(a, b);
  return (
    f32x4.extract_lane(a, 0) +
    f32x4.extract_lane(a, 1) +
    (f32x4.extract_lane(a, 2) + f32x4.extract_lane(a, 3))
  );
}

/** Computes GELU(gate) × up; a row of `gatesAndUps` holds `columns` gates and, behind them, their ups. */
export function geluGate(gatesAndUps: usize, rowCount: i32, columns: i32, results: usize): void {
  const rowBytes = (<usize>columns) << 2;
  const wholeBytes = rowBytes & ~15;
  for (let row = 0; row < rowCount; row++) {
    const ups = gatesAndUps + rowBytes;
    let offset: usize = 0;
    for (; offset < wholeBytes; offset += 16) {
      const activated = gelu(v128.load(gatesAndUps + offset));
      v128.store(results + offset, f32x4.mul(activated, v128.load(ups + offset)));
    }
    for (; offset < rowBytes; offset += 4) {
      const activated = gelu(v128.load32_splat(gatesAndUps + offset));
      const up = f32.load(ups + offset);
      f32.store(results + offset, f32x4.extract_lane(activated, 0) * up);
    }
    gatesAndUps += rowBytes << 1;
    results += rowBytes;
  }
}

/** x × sigmoid(u), where u = 2 × sqrt(2 / pi) × (x + 0.044715 x³): what GELU by tanh comes to. */
function gelu(x: v128): v128 {
  const one = f32x4.splat(1);
  const cubic = f32x4.add(one, f32x4.mul(f32x4.mul(x, x), f32x4.splat(GELU_CUBIC)));
  const u = f32x4.mul(f32x4.mul(x, cubic), f32x4.splat(GELU_SLOPE));
  const power = powerOfTwo(f32x4.mul(f32x4.neg(f32x4.abs(u)), f32x4.splat(LOG2_E)));
  const numerator = v128.bitselect(power, one, f32x4.lt(u, f32x4.splat(0)));
  return f32x4.mul(x, f32x4.div(numerator, f32x4.add(one, power)));
}
