/**
 * Attention over a paged KV pool, in AssemblyScript with 128-bit SIMD. `build.mjs` compiles it to
 * the committed `paged-attention.wasm`. The memory is the caller's; nothing here allocates.
 *
 * Every query runs through the same operations in the same order, whatever is computed beside it:
 * a score sums over the dimensions in order, the softmax depends on the count of tokens alone, and
 * values are added in the order of tokens. Two queries of one KV head are computed side by side so
 * that a tile is read once for both, but their numbers never meet. That is why a text does not
 * depend on its batch mates. Hence no relaxed SIMD, and no sums split by the size of a chunk.
 */

import { copyLine } from "./lines";
import { mixOne, mixPair } from "./mix";
import {
  blockBytes,
  blockHeadBytes,
  headBytes,
  heads,
  kvHeads,
  LINE_BYTES,
  tileBytes,
  TILE_TOKENS,
  tilesPerBlock,
} from "./pool-layout";
import { scoreOne, scorePair } from "./score";
import { softmax } from "./softmax";

export { configure } from "./pool-layout";

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

/**
 * Copies the keys and values of each row into the pools. `slots` holds, for each row, the block
 * times the block's tokens plus the token's place in it.
 */
export function store(
  keys: usize,
  values: usize,
  rowBytes: usize,
  rowCount: i32,
  slots: usize,
  keyPool: usize,
  valuePool: usize,
): void {
  for (let row = 0; row < rowCount; row++) {
    const slot = load<u32>(slots);
    const lane = <usize>(slot % TILE_TOKENS);
    const tile = slot / TILE_TOKENS;
    let offset =
      <usize>(tile / tilesPerBlock) * blockBytes + <usize>(tile % tilesPerBlock) * tileBytes;
    for (let head: usize = 0; head < <usize>kvHeads; head++) {
      storeKey(keys + head * headBytes, keyPool + offset + (lane << 2));
      storeValue(values + head * headBytes, valuePool + offset + lane * LINE_BYTES);
      offset += blockHeadBytes;
    }
    keys += rowBytes;
    values += rowBytes;
    slots += 4;
  }
}

function storeKey(key: usize, column: usize): void {
  const end = key + headBytes;
  while (key < end) {
    f32.store(column, f32.load(key));
    key += 4;
    column += LINE_BYTES;
  }
}

function storeValue(value: usize, line: usize): void {
  const end = value + headBytes;
  while (value < end) {
    copyLine(line, value);
    value += LINE_BYTES;
    line += LINE_BYTES * TILE_TOKENS;
  }
}

/**
 * Attends from `rowCount` consecutive tokens of one sequence, the first at `firstPosition`, to all
 * tokens up to and including each of them, whose keys and values are stored already.
 *
 * `queries` and `outputs` point at rows of heads. `blockTable` holds the sequence's block ids as
 * i32. `scores` is scratch for two rows of floats, each the sequence's length in whole tiles.
 */
export function attend(
  queries: usize,
  queryRowBytes: usize,
  outputs: usize,
  outputRowBytes: usize,
  rowCount: i32,
  firstPosition: i32,
  blockTable: usize,
  keyPool: usize,
  valuePool: usize,
  scores: usize,
): void {
  const group = heads / kvHeads;
  const sequenceTiles = (firstPosition + rowCount + TILE_TOKENS - 1) / TILE_TOKENS;
  const scores2 = scores + <usize>sequenceTiles * LINE_BYTES;
  // The queries of one KV head are numbered by row and, within a row, by head.
  const queryCount = rowCount * group;
  for (let kvHead = 0; kvHead < kvHeads; kvHead++) {
    const keys = keyPool + <usize>kvHead * blockHeadBytes;
    const values = valuePool + <usize>kvHead * blockHeadBytes;
    const firstHead = <usize>(kvHead * group) * headBytes;
    let i = 0;
    for (; i + 1 < queryCount; i += 2) {
      const row = i / group;
      const row2 = (i + 1) / group;
      const head = firstHead + <usize>(i % group) * headBytes;
      const head2 = firstHead + <usize>((i + 1) % group) * headBytes;
      const tokens = firstPosition + row + 1;
      const tokens2 = firstPosition + row2 + 1;
      scorePair(
        queries + <usize>row * queryRowBytes + head,
        queries + <usize>row2 * queryRowBytes + head2,
        tokens2,
        blockTable,
        keys,
        scores,
        scores2,
      );
      const inverse: f32 = 1 / softmax(scores, tokens);
      const inverse2: f32 = 1 / softmax(scores2, tokens2);
      mixPair(
        outputs + <usize>row * outputRowBytes + head,
        outputs + <usize>row2 * outputRowBytes + head2,
        tokens,
        tokens2,
        blockTable,
        values,
        scores,
        scores2,
        inverse,
        inverse2,
      );
    }
    if (i < queryCount) {
      const row = i / group;
      const head = firstHead + <usize>(i % group) * headBytes;
      const tokens = firstPosition + row + 1;
      scoreOne(queries + <usize>row * queryRowBytes + head, tokens, blockTable, keys, scores);
      const inverse: f32 = 1 / softmax(scores, tokens);
      mixOne(
        outputs + <usize>row * outputRowBytes + head,
        tokens,
        blockTable,
        values,
        scores,
        inverse,
      );
    }
  }
}
