/**
 * Attention over a paged KV pool, in AssemblyScript with 128-bit SIMD. `build.mjs` compiles it to
 * the committed `paged-attention.wasm`. The memory is the caller's; nothing here allocates.
 *
 * Every query runs through the same operations in the same order, whatever is computed beside it:
 * a score sums over the dimensions in order, the softmax depends on the count of tokens alone, and
 * values are added in the order of tokens. Queries of one KV head are computed together, so that
 * keys and values come into the fastest cache once for many, and two side by side share what is
 * loaded; but their numbers never meet. That is why a text does not depend on its batch mates. Hence
 * no relaxed SIMD, and no sums split by the size of a chunk.
 */

import { copyLine } from "./lines";
import { mixOne, mixPair } from "./mix";
import {
  blockHeadBytes,
  configureLayout,
  headBytes,
  kvHeads,
  LINE_BYTES,
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
import { scoreOne, scorePair } from "./score";
import { softmax } from "./softmax";

export { rotate } from "./rotate";
export { blockByteLength } from "./pool-layout";

/** See `configureLayout`. */
export function configure(
  queryHeads: i32,
  keyValueHeads: i32,
  headDimensions: i32,
  blockTokens: i32,
): void {
  const bytes = <usize>headDimensions * LINE_BYTES;
  configureLayout(queryHeads, keyValueHeads, headDimensions, blockTokens, bytes);
}

/** What `attend` needs of scratch where a sequence has so many tokens: 17 floats for each, in whole tiles, and a tile. */
export function scratchByteLength(tokens: i32): i32 {
  return (<i32>tilesOf(tokens) * (QUERIES_MAX + 1) + 1) * <i32>LINE_BYTES;
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
    let offset = tileOffsetOf(slot);
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

/** Tiles whose keys all queries at hand pass before the next ones: 16 KiB where heads have 64 dimensions. */
const KEY_TILES: usize = 4;
/** The same of 16 dimensions of the values: 16 KiB. */
const VALUE_TOKENS = 256;

/** Addresses in the scratch: what the queries' sums are divided by, tiles' offsets, and scores. */
let factors: usize = 0;
let offsets: usize = 0;
let scores: usize = 0;

/**
 * Attends from `rowCount` consecutive tokens of one sequence, the first at `firstPosition`, to all
 * tokens up to and including each of them, whose keys and values are stored already.
 *
 * `queries` and `outputs` point at rows of heads. `blockTable` holds the sequence's block ids as
 * i32. `scratch` is as long as `scratchByteLength` says.
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
  scratch: usize,
): void {
  beginQueries(queries, queryRowBytes, outputs, outputRowBytes, rowCount, firstPosition);
  factors = scratch;
  offsets = factors + (QUERIES_MAX << 2);
  scores = scratch + scoreBytes + LINE_BYTES;
  writeTileOffsets(offsets, blockTable, <u32>tilesOf(firstPosition + rowCount));
  while (nextQueries()) {
    scoreQueries(keyPool + headOffset);
    weighQueries();
    mixQueries(valuePool + headOffset);
  }
}

/** Writes the scores of queries against all tiles they see, a row of scores a query. */
function scoreQueries(keys: usize): void {
  const tiles = tilesOf(tokensOfAll());
  for (let tile: usize = 0; tile < tiles; tile += KEY_TILES) {
    const offset = offsets + (tile << 2);
    let row = scores + tile * LINE_BYTES;
    for (let query = firstQuery; query < endQuery; query += 2) {
      const seen = tilesOf(tokensOfPair(query));
      if (seen > tile) {
        const offsetEnd = offset + (min(seen - tile, KEY_TILES) << 2);
        if (query + 1 < endQuery) {
          const next = row + scoreBytes;
          scorePair(inputOf(query), inputOf(query + 1), offset, offsetEnd, keys, row, next);
        } else {
          scoreOne(inputOf(query), offset, offsetEnd, keys, row);
        }
      }
      row += scoreBytes << 1;
    }
  }
}

/** Makes weights of the scores, whose sums are still to be divided by, and clears the results. */
function weighQueries(): void {
  let row = scores;
  let factor = factors;
  for (let query = firstQuery; query < endQuery; query++) {
    f32.store(factor, 1 / softmax(row, tokensOf(query)));
    clearResult(query);
    row += scoreBytes;
    factor += 4;
  }
}

/** Sums up the values that queries see, weighted. */
function mixQueries(values: usize): void {
  const tokens = tokensOfAll();
  for (let part: usize = 0; part < headBytes; part += LINE_BYTES) {
    for (let start = 0; start < tokens; start += VALUE_TOKENS) {
      const offset = offsets + <usize>(start / TILE_TOKENS) * 4;
      const pool = values + part * TILE_TOKENS;
      let row = scores + ((<usize>start) << 2);
      let factor = factors;
      for (let query = firstQuery; query < endQuery; query += 2) {
        const own = clampTokens(tokensOf(query) - start);
        if (query + 1 === endQuery) {
          if (own > 0)
            mixOne(resultOf(query) + part, own, offset, pool, row, factorOf(query, start, factor));
        } else {
          const next = clampTokens(tokensOf(query + 1) - start);
          if (next > 0) {
            mixPair(
              resultOf(query) + part,
              resultOf(query + 1) + part,
              own,
              next,
              offset,
              pool,
              row,
              row + scoreBytes,
              factorOf(query, start, factor),
              factorOf(query + 1, start, factor + 4),
            );
          }
        }
        row += scoreBytes << 1;
        factor += 8;
      }
    }
  }
}

function clampTokens(tokens: i32): i32 {
  return max(0, min(tokens, VALUE_TOKENS));
}

/** A sum is divided when the last of its values are there, and only then. */
function factorOf(query: i32, start: i32, factor: usize): f32 {
  const tokens = tokensOf(query) - start;
  return tokens > 0 && tokens <= VALUE_TOKENS ? f32.load(factor) : 1;
}
