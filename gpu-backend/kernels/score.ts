import { multiplyAdd, storeScaled } from "./lines";
import { LINE_BYTES, scoreScale, tileBytes } from "./pool-layout";

/**
 * Writes the scaled scores of two queries against the whole tiles of keys whose offsets lie from
 * `offset` to `offsetEnd`. The lanes past the last token come from whatever the slots held before;
 * `softmax` masks them.
 */
export function scorePair(
  query: usize,
  query2: usize,
  offset: usize,
  offsetEnd: usize,
  keys: usize,
  scores: usize,
  scores2: usize,
): void {
  const factor = f32x4.splat(scoreScale);
  for (; offset < offsetEnd; offset += 4) {
    let line = keys + <usize>load<u32>(offset);
    const end = line + tileBytes;
    let a0 = f32x4.splat(0);
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
      const k0 = v128.load(line);
      const k1 = v128.load(line, 16);
      const k2 = v128.load(line, 32);
      const k3 = v128.load(line, 48);
      const q = v128.load32_splat(x);
      const q2 = v128.load32_splat(y);
      a0 = multiplyAdd(a0, q, k0);
      a1 = multiplyAdd(a1, q, k1);
      a2 = multiplyAdd(a2, q, k2);
      a3 = multiplyAdd(a3, q, k3);
      b0 = multiplyAdd(b0, q2, k0);
      b1 = multiplyAdd(b1, q2, k1);
      b2 = multiplyAdd(b2, q2, k2);
      b3 = multiplyAdd(b3, q2, k3);
      x += 4;
      y += 4;
      line += LINE_BYTES;
    }
    storeScaled(scores, factor, a0, a1, a2, a3);
    storeScaled(scores2, factor, b0, b1, b2, b3);
    scores += LINE_BYTES;
    scores2 += LINE_BYTES;
  }
}

/** `scorePair` for a query that has no neighbour, operation for operation. */
export function scoreOne(
  query: usize,
  offset: usize,
  offsetEnd: usize,
  keys: usize,
  scores: usize,
): void {
  const factor = f32x4.splat(scoreScale);
  for (; offset < offsetEnd; offset += 4) {
    let line = keys + <usize>load<u32>(offset);
    const end = line + tileBytes;
    let a0 = f32x4.splat(0);
    let a1 = a0;
    let a2 = a0;
    let a3 = a0;
    let x = query;
    while (line < end) {
      const q = v128.load32_splat(x);
      a0 = multiplyAdd(a0, q, v128.load(line));
      a1 = multiplyAdd(a1, q, v128.load(line, 16));
      a2 = multiplyAdd(a2, q, v128.load(line, 32));
      a3 = multiplyAdd(a3, q, v128.load(line, 48));
      x += 4;
      line += LINE_BYTES;
    }
    storeScaled(scores, factor, a0, a1, a2, a3);
    scores += LINE_BYTES;
  }
}
