import { multiplyAdd } from "./lines";
import { LINE_BYTES, TILE_TOKENS } from "./pool-layout";
import { addProducts } from "./whole-numbers";

/** 16 dimensions of the values of two tokens. */
const PAIR_BYTES: usize = 32;

/**
 * Adds the weighted values of two queries over some tiles, 16 dimensions of each, to what `output` and
 * `output2` hold. Weights are i16, and 0 from where a query sees no more on; `pairs` is how many pairs
 * of tokens the second sees.
 */
export function mixPair(
  output: usize,
  output2: usize,
  pairs: i32,
  offset: usize,
  values: usize,
  weights: usize,
  weights2: usize,
  scale: f32,
  scale2: f32,
): void {
  let a0 = i32x4.splat(0);
  let a1 = a0;
  let a2 = a0;
  let a3 = a0;
  let b0 = a0;
  let b1 = a0;
  let b2 = a0;
  let b3 = a0;
  for (let rest = pairs; rest > 0; rest -= TILE_TOKENS / 2) {
    let line = values + <usize>load<u32>(offset);
    const end = line + <usize>min(rest, TILE_TOKENS / 2) * PAIR_BYTES;
    while (line < end) {
      const w = v128.load32_splat(weights);
      const w2 = v128.load32_splat(weights2);
      const v0 = v128.load8x8_s(line);
      a0 = addProducts(a0, v0, w);
      b0 = addProducts(b0, v0, w2);
      const v1 = v128.load8x8_s(line, 8);
      a1 = addProducts(a1, v1, w);
      b1 = addProducts(b1, v1, w2);
      const v2 = v128.load8x8_s(line, 16);
      a2 = addProducts(a2, v2, w);
      b2 = addProducts(b2, v2, w2);
      const v3 = v128.load8x8_s(line, 24);
      a3 = addProducts(a3, v3, w);
      b3 = addProducts(b3, v3, w2);
      weights += 4;
      weights2 += 4;
      line += PAIR_BYTES;
    }
    offset += 4;
  }
  addScaled(output, scale, a0, a1, a2, a3);
  addScaled(output2, scale2, b0, b1, b2, b3);
}

/** `mixPair` for a query that has no neighbour, operation for operation. */
export function mixOne(
  output: usize,
  pairs: i32,
  offset: usize,
  values: usize,
  weights: usize,
  scale: f32,
): void {
  let a0 = i32x4.splat(0);
  let a1 = a0;
  let a2 = a0;
  let a3 = a0;
  for (let rest = pairs; rest > 0; rest -= TILE_TOKENS / 2) {
    let line = values + <usize>load<u32>(offset);
    const end = line + <usize>min(rest, TILE_TOKENS / 2) * PAIR_BYTES;
    while (line < end) {
      const w = v128.load32_splat(weights);
      a0 = addProducts(a0, v128.load8x8_s(line), w);
      a1 = addProducts(a1, v128.load8x8_s(line, 8), w);
      a2 = addProducts(a2, v128.load8x8_s(line, 16), w);
      a3 = addProducts(a3, v128.load8x8_s(line, 24), w);
      weights += 4;
      line += PAIR_BYTES;
    }
    offset += 4;
  }
  addScaled(output, scale, a0, a1, a2, a3);
}

function addScaled(output: usize, scale: f32, s0: v128, s1: v128, s2: v128, s3: v128): void {
  const scales = f32x4.splat(scale);
  v128.store(output, multiplyAdd(v128.load(output), f32x4.convert_i32x4_s(s0), scales));
  v128.store(output, multiplyAdd(v128.load(output, 16), f32x4.convert_i32x4_s(s1), scales), 16);
  v128.store(output, multiplyAdd(v128.load(output, 32), f32x4.convert_i32x4_s(s2), scales), 32);
  v128.store(output, multiplyAdd(v128.load(output, 48), f32x4.convert_i32x4_s(s3), scales), 48);
}
