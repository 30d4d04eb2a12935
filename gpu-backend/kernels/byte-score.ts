import { LINE_BYTES, tileBytes } from "./pool-layout";
import { addProducts } from "./whole-numbers";

/** Two dimensions of the keys of 16 tokens. */
const PAIR_BYTES: usize = 32;

/**
 * Writes the scaled scores of two queries, whose dimensions are i16, against the whole tiles of keys
 * whose offsets lie from `offset` to `offsetEnd`. The lanes past the last token come from whatever the
 * slots held before; `softmax` masks them.
 */
export function scorePair(
  query: usize,
  query2: usize,
  scale: f32,
  scale2: f32,
  offset: usize,
  offsetEnd: usize,
  keys: usize,
  scores: usize,
  scores2: usize,
): void {
  for (; offset < offsetEnd; offset += 4) {
    const tile = keys + <usize>load<u32>(offset);
    const end = tile + tileBytes;
    let line = tile + LINE_BYTES;
    let a0 = i32x4.splat(0);
    let a1 = a0;
    let a2 = a0;
    let a3 = a0;
    let b0 = a0;
    let b1 = a0;
    let b2 = a0;
    let b3 = a0;
    let x = query;
    let y = query2;
    while (line < end) {
      const q = v128.load32_splat(x);
      const q2 = v128.load32_splat(y);
      const k0 = v128.load8x8_s(line);
      a0 = addProducts(a0, k0, q);
      b0 = addProducts(b0, k0, q2);
      const k1 = v128.load8x8_s(line, 8);
      a1 = addProducts(a1, k1, q);
      b1 = addProducts(b1, k1, q2);
      const k2 = v128.load8x8_s(line, 16);
      a2 = addProducts(a2, k2, q);
      b2 = addProducts(b2, k2, q2);
      const k3 = v128.load8x8_s(line, 24);
      a3 = addProducts(a3, k3, q);
      b3 = addProducts(b3, k3, q2);
      x += 4;
      y += 4;
      line += PAIR_BYTES;
    }
    storeScores(scores, tile, scale, a0, a1, a2, a3);
    storeScores(scores2, tile, scale2, b0, b1, b2, b3);
    scores += LINE_BYTES;
    scores2 += LINE_BYTES;
  }
}

/** `scorePair` for a query that has no neighbour, operation for operation. */
export function scoreOne(
  query: usize,
  scale: f32,
  offset: usize,
  offsetEnd: usize,
  keys: usize,
  scores: usize,
): void {
  for (; offset < offsetEnd; offset += 4) {
    const tile = keys + <usize>load<u32>(offset);
    const end = tile + tileBytes;
    let line = tile + LINE_BYTES;
    let a0 = i32x4.splat(0);
    let a1 = a0;
    let a2 = a0;
    let a3 = a0;
    let x = query;
    while (line < end) {
      const q = v128.load32_splat(x);
      a0 = addProducts(a0, v128.load8x8_s(line), q);
      a1 = addProducts(a1, v128.load8x8_s(line, 8), q);
      a2 = addProducts(a2, v128.load8x8_s(line, 16), q);
      a3 = addProducts(a3, v128.load8x8_s(line, 24), q);
      x += 4;
      line += PAIR_BYTES;
    }
    storeScores(scores, tile, scale, a0, a1, a2, a3);
    scores += LINE_BYTES;
  }
}

/** A sum is scaled by the scales of its query and of its token's key, which the tile begins with. */
function storeScores(
  scores: usize,
  tile: usize,
  scale: f32,
  s0: v128,
  s1: v128,
  s2: v128,
  s3: v128,
): void {
  const scales = f32x4.splat(scale);
  v128.store(scores, scaled(s0, scales, v128.load(tile)));
  v128.store(scores, scaled(s1, scales, v128.load(tile, 16)), 16);
  v128.store(scores, scaled(s2, scales, v128.load(tile, 32)), 32);
  v128.store(scores, scaled(s3, scales, v128.load(tile, 48)), 48);
}

function scaled(sums: v128, scales: v128, keyScales: v128): v128 {
  return f32x4.mul(f32x4.convert_i32x4_s(sums), f32x4.mul(scales, keyScales));
}
