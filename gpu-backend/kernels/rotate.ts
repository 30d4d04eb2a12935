import { headBytes, heads, kvHeads } from "./pool-layout";

/**
 * Rotates the query heads and, right behind them, the key heads of each row in place (RoPE, half
 * split). A row of `table` belongs to a position: a cosine for each pair of dimensions of a head,
 * then as many sines.
 */
export function rotate(
  rows: usize,
  rowBytes: usize,
  rowCount: i32,
  positions: usize,
  table: usize,
): void {
  const halfBytes = headBytes >> 1;
  for (let row = 0; row < rowCount; row++) {
    const cosines = table + <usize>load<i32>(positions) * headBytes;
    const sines = cosines + halfBytes;
    let head = rows;
    for (let h = 0; h < heads + kvHeads; h++) {
      for (let offset: usize = 0; offset < halfBytes; offset += 16) {
        const cosine = v128.load(cosines + offset);
        const sine = v128.load(sines + offset);
        const low = head + offset;
        const high = low + halfBytes;
        const x = v128.load(low);
        const y = v128.load(high);
        v128.store(low, f32x4.sub(f32x4.mul(x, cosine), f32x4.mul(y, sine)));
        v128.store(high, f32x4.add(f32x4.mul(y, cosine), f32x4.mul(x, sine)));
      }
      head += headBytes;
    }
    rows += rowBytes;
    positions += 4;
  }
}
