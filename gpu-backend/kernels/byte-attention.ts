/**
 * Attention over a paged KV pool of 8-bit keys and values, in AssemblyScript with 128-bit SIMD.
 * `build.mjs` compiles it to the committed `byte-attention.wasm`. It has the interface of
 * `paged-attention.ts`, and the memory is the caller's.
 *
 * Each key and each value of a head is whole numbers within ±127 times a scale of its own. They are
 * multiplied as such, keys with queries and values with weights of 16 bits: sums are exact, so it
 * makes no difference which queries are computed together. All else is done query by query, and
 * depends on the positions of its tokens alone.
 */

import { mixOne, mixPair } from "./byte-mix";
import { scoreOne, scorePair } from "./byte-score";
import { storeKey, storeValue } from "./byte-store";
import { CHUNK_TILES, CHUNK_TOKENS, weigh } from "./byte-weights";
import {
  blockHeadBytes,
  configureLayout,
  headBytes,
  kvHeads,
  LINE_BYTES,
  scoreScale,
  TILE_TOKENS,
  tileOffsetOf,
  tilesOf,
  writeTileOffsets,
} from "./pool-layout";
import {
  beginQueries,
  clearResult,
  endQuery,
  firstQuery,
  headOffset,
  inputOf,
  nextQueries,
  QUERIES_MAX,
  resultOf,
  scoreBytes,
  tokensOf,
  tokensOfAll,
  tokensOfPair,
} from "./queries";
import { largestOf, LARGEST_MIN, SHORT_MAX, toShorts } from "./whole-numbers";

export { blockByteLength } from "./pool-layout";
export { rotate } from "./rotate";

/** Tiles whose keys all queries at hand pass before the next ones: 17 KiB where heads have 64 dimensions. */
const KEY_TILES: usize = 16;

/**
 * See `configureLayout`. Heads have at most 512 dimensions: the sums of so many products of 7 and 15
 * bits fit 32.
 */
export function configure(
  queryHeads: i32,
  keyValueHeads: i32,
  headDimensions: i32,
  blockTokens: i32,
): void {
  const bytes = LINE_BYTES + <usize>headDimensions * TILE_TOKENS;
  configureLayout(queryHeads, keyValueHeads, headDimensions, blockTokens, bytes);
}

/** What `attend` needs of scratch where a sequence has so many tokens. */
export function scratchByteLength(tokens: i32): i32 {
  const tiles = tilesOf(tokens);
  const rowBytes = tiles * LINE_BYTES + chunkBytes(tiles);
  return <i32>(offsetBytes(tiles) + LINE_BYTES + queryBytes() + QUERIES_MAX * rowBytes);
}

function offsetBytes(tiles: usize): usize {
  return (tiles * 4 + LINE_BYTES - 1) & ~(LINE_BYTES - 1);
}

function chunkBytes(tiles: usize): usize {
  return ((tiles + CHUNK_TILES - 1) / CHUNK_TILES) << 2;
}

function queryBytes(): usize {
  return (headBytes >> 1) * QUERIES_MAX;
}

/** Quantizes the keys and values of each row into the pools; `slots` as in `paged-attention.ts`. */
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
    let offset = tileOffsetOf(slot);
    for (let head: usize = 0; head < <usize>kvHeads; head++) {
      storeKey(keys + head * headBytes, keyPool + offset, lane);
      storeValue(values + head * headBytes, valuePool + offset, lane);
      offset += blockHeadBytes;
    }
    keys += rowBytes;
    values += rowBytes;
    slots += 4;
  }
}

/** Addresses in the scratch, in their order but for the scales of chunks, which are the last. */
let offsets: usize = 0;
let queryScales: usize = 0;
let chunkScales: usize = 0;
let quantized: usize = 0;
let scores: usize = 0;

/** See `attend` in `paged-attention.ts`. */
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
  scratch: usize,
): void {
  beginQueries(queries, queryRowBytes, outputs, outputRowBytes, rowCount, firstPosition);
  const tileCount = tilesOf(firstPosition + rowCount);
  offsets = scratch;
  queryScales = offsets + offsetBytes(tileCount);
  quantized = queryScales + LINE_BYTES;
  scores = quantized + queryBytes();
  chunkScales = scores + QUERIES_MAX * scoreBytes;
  writeTileOffsets(offsets, blockTable, <u32>tileCount);
  while (nextQueries()) {
    quantizeQueries();
    scoreQueries(keyPool + headOffset);
    weighQueries(valuePool + headOffset);
    mixQueries(valuePool + headOffset);
  }
}

/** Makes 16-bit numbers of queries, each with a scale that scores need anyway. */
function quantizeQueries(): void {
  let target = quantized;
  let scale = queryScales;
  for (let query = firstQuery; query < endQuery; query++) {
    let head = inputOf(query);
    const largest = max(largestOf(head, <i32>(headBytes >> 2)), LARGEST_MIN);
    f32.store(scale, (largest / SHORT_MAX) * scoreScale);
    scale += 4;
    const factors = f32x4.splat(SHORT_MAX / largest);
    const headEnd = head + headBytes;
    for (; head < headEnd; head += 32) {
      v128.store(target, toShorts(head, factors));
      target += 16;
    }
  }
}

/** Writes the scores of queries against all tiles they see, a row of scores a query. */
function scoreQueries(keys: usize): void {
  const tiles = tilesOf(tokensOfAll());
  const bytes = headBytes >> 1;
  for (let tile: usize = 0; tile < tiles; tile += KEY_TILES) {
    const offset = offsets + (tile << 2);
    let row = scores + tile * LINE_BYTES;
    let numbers = quantized;
    let scale = queryScales;
    for (let query = firstQuery; query < endQuery; query += 2) {
      const seen = tilesOf(tokensOfPair(query));
      if (seen > tile) {
        const offsetEnd = offset + (min(seen - tile, KEY_TILES) << 2);
        if (query + 1 < endQuery) {
          const s = f32.load(scale);
          const s2 = f32.load(scale, 4);
          const next = row + scoreBytes;
          scorePair(numbers, numbers + bytes, s, s2, offset, offsetEnd, keys, row, next);
        } else {
          scoreOne(numbers, f32.load(scale), offset, offsetEnd, keys, row);
        }
      }
      row += scoreBytes << 1;
      numbers += bytes << 1;
      scale += 8;
    }
  }
}

/** Makes weights of the scores, and clears the results. */
function weighQueries(values: usize): void {
  const tiles = tilesOf(tokensOfAll());
  const bytes = chunkBytes(tiles);
  let row = scores;
  let scales = chunkScales;
  for (let query = firstQuery; query < endQuery; query++) {
    weigh(row, tokensOf(query), tiles, offsets, values, scales);
    clearResult(query);
    row += scoreBytes;
    scales += bytes;
  }
}

/** Sums up the values that queries see, weighted, chunk by chunk. */
function mixQueries(values: usize): void {
  const tokens = tokensOfAll();
  const bytes = chunkBytes(tilesOf(tokens));
  let offset = offsets;
  let weights = scores;
  let scales = chunkScales;
  for (let start = 0; start < tokens; start += CHUNK_TOKENS) {
    let row = weights;
    let scale = scales;
    for (let query = firstQuery; query < endQuery; query += 2) {
      const isPair = query + 1 < endQuery;
      const seen = min(tokensOfPair(query) - start, CHUNK_TOKENS);
      if (seen > 0) {
        const output = resultOf(query);
        const pairs = (seen + 1) >> 1;
        let pool = values + LINE_BYTES;
        for (let part: usize = 0; part < headBytes; part += LINE_BYTES) {
          if (isPair) {
            const output2 = resultOf(query + 1) + part;
            const row2 = row + scoreBytes;
            const s = f32.load(scale);
            const s2 = f32.load(scale + bytes);
            mixPair(output + part, output2, pairs, offset, pool, row, row2, s, s2);
          } else {
            mixOne(output + part, pairs, offset, pool, row, f32.load(scale));
          }
          pool += <usize>TILE_TOKENS * 16;
        }
      }
      row += scoreBytes << 1;
      scale += bytes << 1;
    }
    offset += CHUNK_TILES << 2;
    weights += (<usize>CHUNK_TOKENS) << 1;
    scales += 4;
  }
}
