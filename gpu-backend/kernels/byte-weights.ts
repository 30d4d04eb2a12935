import { LINE_BYTES, TILE_TOKENS } from "./pool-layout";
import { softmax } from "./softmax";
import { largestOf, SHORT_MAX, toShorts } from "./whole-numbers";

/**
 * Tiles whose weights share a scale. What is far below the largest of them is lost, so one token that
 * takes all of the attention costs only its neighbours something; and the sums of 128 products of 15
 * and 7 bits are far from overflow in 32.
 */
export const CHUNK_TILES: usize = 8;
export const CHUNK_TOKENS: i32 = <i32>CHUNK_TILES * TILE_TOKENS;

/** What the largest weight is taken for at least: a chunk that nobody sees weighs nothing. */
const LARGEST_MIN: f32 = 1e-30;

/**
 * Turns scores of `tokens` tokens into weights of 16 bits, each times the scale of its token's value, in
 * place: they are half as long. Behind the last token they are 0, up to the end of `tiles` tiles.
 * `scales` gets, for each chunk, what sums of weighted values are to be multiplied with.
 */
export function weigh(
  scores: usize,
  tokens: i32,
  tiles: usize,
  offsets: usize,
  values: usize,
  scales: usize,
): void {
  const inverse: f32 = 1 / softmax(scores, tokens);
  const end = scores + tiles * LINE_BYTES;
  for (let line = scores + ((<usize>(tokens + 3) >> 2) << 4); line < end; line += 16) {
    v128.store(line, f32x4.splat(0));
  }
  let line = scores;
  let target = scores;
  while (line < end) {
    const chunkEnd = min(line + CHUNK_TILES * LINE_BYTES, end);
    for (let tile = line; tile < chunkEnd; tile += LINE_BYTES) {
      const valueScales = values + <usize>load<u32>(offsets);
      multiplyVisible(tile, valueScales);
      multiplyVisible(tile + 16, valueScales + 16);
      multiplyVisible(tile + 32, valueScales + 32);
      multiplyVisible(tile + 48, valueScales + 48);
      offsets += 4;
    }
    const largest = max(largestOf(line, <i32>((chunkEnd - line) >> 2)), LARGEST_MIN);
    f32.store(scales, (largest / SHORT_MAX) * inverse);
    scales += 4;
    const factors = f32x4.splat(SHORT_MAX / largest);
    for (; line < chunkEnd; line += 32) {
      v128.store(target, toShorts(line, factors));
      target += 16;
    }
  }
}

/** Multiplies four weights with the scales of their tokens. Where nobody looks, a scale may be anything. */
function multiplyVisible(weights: usize, valueScales: usize): void {
  const weight = v128.load(weights);
  const product = f32x4.mul(weight, v128.load(valueScales));
  v128.store(weights, v128.and(product, f32x4.ne(weight, f32x4.splat(0))));
}
