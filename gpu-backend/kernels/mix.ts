import { multiplyAdd, storeScaled } from "./lines";
import { headBytes, LINE_BYTES, tileAddress, TILE_TOKENS } from "./pool-layout";

/**
 * Writes the weighted sums of values of two queries, 16 dimensions at a time. `tokens2` is `tokens`
 * or one more; a token that only the second may see is added for it alone.
 */
export function mixPair(
  output: usize,
  output2: usize,
  tokens: i32,
  tokens2: i32,
  blockTable: usize,
  values: usize,
  weights: usize,
  weights2: usize,
  inverse: f32,
  inverse2: f32,
): void {
  const factor = f32x4.splat(inverse);
  const factor2 = f32x4.splat(inverse2);
  for (let part: usize = 0; part < headBytes; part += LINE_BYTES) {
    const pool = values + part * TILE_TOKENS;
    let a0 = f32x4.splat(0);
    let a1 = a0;
    let a2 = a0;
    let a3 = a0;
    let b0 = a0;
    let b1 = a0;
    let b2 = a0;
    let b3 = a0;
    let x = weights;
    let y = weights2;
    let rest = tokens;
    for (let tile: u32 = 0; rest > 0; tile++) {
      let line = tileAddress(pool, blockTable, tile);
      const end = line + <usize>min(rest, TILE_TOKENS) * LINE_BYTES;
      while (line < end) {
        const v0 = v128.load(line);
        const v1 = v128.load(line, 16);
        const v2 = v128.load(line, 32);
        const v3 = v128.load(line, 48);
        const w = v128.load32_splat(x);
        const w2 = v128.load32_splat(y);
        a0 = multiplyAdd(a0, w, v0);
        a1 = multiplyAdd(a1, w, v1);
        a2 = multiplyAdd(a2, w, v2);
        a3 = multiplyAdd(a3, w, v3);
        b0 = multiplyAdd(b0, w2, v0);
        b1 = multiplyAdd(b1, w2, v1);
        b2 = multiplyAdd(b2, w2, v2);
        b3 = multiplyAdd(b3, w2, v3);
        x += 4;
        y += 4;
        line += LINE_BYTES;
      }
      rest -= TILE_TOKENS;
    }
    if (tokens < tokens2) {
      const tile = tileAddress(pool, blockTable, <u32>tokens / TILE_TOKENS);
      const line = tile + <usize>(tokens % TILE_TOKENS) * LINE_BYTES;
      const w2 = v128.load32_splat(y);
      b0 = multiplyAdd(b0, w2, v128.load(line));
      b1 = multiplyAdd(b1, w2, v128.load(line, 16));
      b2 = multiplyAdd(b2, w2, v128.load(line, 32));
      b3 = multiplyAdd(b3, w2, v128.load(line, 48));
    }
    storeScaled(output + part, factor, a0, a1, a2, a3);
    storeScaled(output2 + part, factor2, b0, b1, b2, b3);
  }
}

/** `mixPair` for a query that has no neighbour, operation for operation. */
export function mixOne(
  output: usize,
  tokens: i32,
  blockTable: usize,
  values: usize,
  weights: usize,
  inverse: f32,
): void {
  const factor = f32x4.splat(inverse);
  for (let part: usize = 0; part < headBytes; part += LINE_BYTES) {
    const pool = values + part * TILE_TOKENS;
    let a0 = f32x4.splat(0);
    let a1 = a0;
    let a2 = a0;
    let a3 = a0;
    let x = weights;
    let rest = tokens;
    for (let tile: u32 = 0; rest > 0; tile++) {
      let line = tileAddress(pool, blockTable, tile);
      const end = line + <usize>min(rest, TILE_TOKENS) * LINE_BYTES;
      while (line < end) {
        const w = v128.load32_splat(x);
        a0 = multiplyAdd(a0, w, v128.load(line));
        a1 = multiplyAdd(a1, w, v128.load(line, 16));
        a2 = multiplyAdd(a2, w, v128.load(line, 32));
        a3 = multiplyAdd(a3, w, v128.load(line, 48));
        x += 4;
        line += LINE_BYTES;
      }
      rest -= TILE_TOKENS;
    }
    storeScaled(output + part, factor, a0, a1, a2, a3);
  }
}
