import { multiplyAdd, storeScaled } from "./lines";
import { LINE_BYTES, TILE_TOKENS } from "./pool-layout";

/**
 * Adds the weighted values of two queries over some tiles, 16 dimensions of each, to what `output` and
 * `output2` hold, and multiplies the sums with a factor that is 1 until the last tiles are there.
 * `tokens2` is `tokens` or one more, both counted from the first of these tiles; a token that only
 * the second may see is added for it alone.
 */
export function mixPair(
  output: usize,
  output2: usize,
  tokens: i32,
  tokens2: i32,
  offset: usize,
  values: usize,
  weights: usize,
  weights2: usize,
  factor: f32,
  factor2: f32,
): void {
  let a0 = v128.load(output);
  let a1 = v128.load(output, 16);
  let a2 = v128.load(output, 32);
  let a3 = v128.load(output, 48);
  let b0 = v128.load(output2);
  let b1 = v128.load(output2, 16);
  let b2 = v128.load(output2, 32);
  let b3 = v128.load(output2, 48);
  let rest = tokens;
  while (rest > 0) {
    let line = values + <usize>load<u32>(offset);
    const end = line + <usize>min(rest, TILE_TOKENS) * LINE_BYTES;
    while (line < end) {
      const v0 = v128.load(line);
      const v1 = v128.load(line, 16);
      const v2 = v128.load(line, 32);
      const v3 = v128.load(line, 48);
      const w = v128.load32_splat(weights);
      const w2 = v128.load32_splat(weights2);
      a0 = multiplyAdd(a0, w, v0);
      a1 = multiplyAdd(a1, w, v1);
      a2 = multiplyAdd(a2, w, v2);
      a3 = multiplyAdd(a3, w, v3);
      b0 = multiplyAdd(b0, w2, v0);
      b1 = multiplyAdd(b1, w2, v1);
      b2 = multiplyAdd(b2, w2, v2);
      b3 = multiplyAdd(b3, w2, v3);
      weights += 4;
      weights2 += 4;
      line += LINE_BYTES;
    }
    rest -= TILE_TOKENS;
    if (rest >= 0) offset += 4;
  }
  if (tokens < tokens2) {
    const line = values + <usize>load<u32>(offset) + <usize>(tokens % TILE_TOKENS) * LINE_BYTES;
    const w2 = v128.load32_splat(weights2);
    b0 = multiplyAdd(b0, w2, v128.load(line));
    b1 = multiplyAdd(b1, w2, v128.load(line, 16));
    b2 = multiplyAdd(b2, w2, v128.load(line, 32));
    b3 = multiplyAdd(b3, w2, v128.load(line, 48));
  }
  storeScaled(output, f32x4.splat(factor), a0, a1, a2, a3);
  storeScaled(output2, f32x4.splat(factor2), b0, b1, b2, b3);
}

/** `mixPair` for a query that has no neighbour, operation for operation. */
export function mixOne(
  output: usize,
  tokens: i32,
  offset: usize,
  values: usize,
  weights: usize,
  factor: f32,
): void {
  let a0 = v128.load(output);
  let a1 = v128.load(output, 16);
  let a2 = v128.load(output, 32);
  let a3 = v128.load(output, 48);
  for (let rest = tokens; rest > 0; rest -= TILE_TOKENS) {
    let line = values + <usize>load<u32>(offset);
    const end = line + <usize>min(rest, TILE_TOKENS) * LINE_BYTES;
    while (line < end) {
      const w = v128.load32_splat(weights);
      a0 = multiplyAdd(a0, w, v128.load(line));
      a1 = multiplyAdd(a1, w, v128.load(line, 16));
      a2 = multiplyAdd(a2, w, v128.load(line, 32));
      a3 = multiplyAdd(a3, w, v128.load(line, 48));
      weights += 4;
      line += LINE_BYTES;
    }
    offset += 4;
  }
  storeScaled(output, f32x4.splat(factor), a0, a1, a2, a3);
}
