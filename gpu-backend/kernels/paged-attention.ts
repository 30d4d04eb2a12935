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
  blockBytes,
  blockHeadBytes,
  configureLayout,
  headBytes,
  heads,
  kvHeads,
  LINE_BYTES,
  tileBytes,
  TILE_TOKENS,
  tilesOf,
  tilesPerBlock,
  writeTileOffsets,
} from "./pool-layout";
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

/** Queries that are computed together, by pairs; see `attend`. */
const QUERIES_MAX = 16;
/** Tiles whose keys all these queries pass before the next ones: 16 KiB where heads have 64 dimensions. */
const KEY_TILES: usize = 4;
/** The same of 16 dimensions of the values: 16 KiB. */
const VALUE_TOKENS = 256;

/** The queries at hand, and what belongs to them; see `attend`. */
let inputs: usize = 0;
let inputRowBytes: usize = 0;
let results: usize = 0;
let resultRowBytes: usize = 0;
let group: i32 = 0;
let firstHead: i32 = 0;
let position: i32 = 0;
let scoreBytes: usize = 0;

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
  inputs = queries;
  inputRowBytes = queryRowBytes;
  results = outputs;
  resultRowBytes = outputRowBytes;
  group = heads / kvHeads;
  position = firstPosition;
  const tileCount = tilesOf(firstPosition + rowCount);
  scoreBytes = tileCount * LINE_BYTES;
  const offsets = scratch + (QUERIES_MAX << 2);
  const scores = scratch + scoreBytes + LINE_BYTES;
  writeTileOffsets(offsets, blockTable, <u32>tileCount);
  // The queries of one KV head are numbered by row and, within a row, by head.
  const queryCount = rowCount * group;
  for (let kvHead = 0; kvHead < kvHeads; kvHead++) {
    firstHead = kvHead * group;
    const share = <usize>kvHead * blockHeadBytes;
    for (let first = 0; first < queryCount; first += QUERIES_MAX) {
      const end = min(first + QUERIES_MAX, queryCount);
      scoreQueries(first, end, offsets, keyPool + share, scores);
      weighQueries(first, end, scores, scratch);
      mixQueries(first, end, offsets, valuePool + share, scores, scratch);
    }
  }
}

/** How many tokens a query sees. */
function tokensOf(query: i32): i32 {
  return position + query / group + 1;
}

function inputOf(query: i32): usize {
  return (
    inputs +
    <usize>(query / group) * inputRowBytes +
    <usize>(firstHead + (query % group)) * headBytes
  );
}

function resultOf(query: i32): usize {
  return (
    results +
    <usize>(query / group) * resultRowBytes +
    <usize>(firstHead + (query % group)) * headBytes
  );
}

/** Writes the scores of queries against all tiles they see, a row of scores a query. */
function scoreQueries(first: i32, end: i32, offsets: usize, keys: usize, scores: usize): void {
  const tiles = tilesOf(tokensOf(end - 1));
  for (let tile: usize = 0; tile < tiles; tile += KEY_TILES) {
    const offset = offsets + (tile << 2);
    let row = scores + tile * LINE_BYTES;
    for (let query = first; query < end; query += 2) {
      const isPair = query + 1 < end;
      const seen = tilesOf(tokensOf(isPair ? query + 1 : query));
      if (seen > tile) {
        const offsetEnd = offset + (min(seen - tile, KEY_TILES) << 2);
        if (isPair) {
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

/** Makes weights of the scores, whose sums are still to be divided by: the factors for that. */
function weighQueries(first: i32, end: i32, scores: usize, factors: usize): void {
  for (let query = first; query < end; query++) {
    const sum = softmax(scores, tokensOf(query));
    f32.store(factors, 1 / sum);
    clearHead(resultOf(query));
    scores += scoreBytes;
    factors += 4;
  }
}

function clearHead(result: usize): void {
  const end = result + headBytes;
  for (; result < end; result += LINE_BYTES) {
    v128.store(result, f32x4.splat(0));
    v128.store(result, f32x4.splat(0), 16);
    v128.store(result, f32x4.splat(0), 32);
    v128.store(result, f32x4.splat(0), 48);
  }
}

/** Sums up the values that queries see, weighted. */
function mixQueries(
  first: i32,
  end: i32,
  offsets: usize,
  values: usize,
  weights: usize,
  factors: usize,
): void {
  const tokens = tokensOf(end - 1);
  for (let part: usize = 0; part < headBytes; part += LINE_BYTES) {
    for (let start = 0; start < tokens; start += VALUE_TOKENS) {
      const offset = offsets + <usize>(start / TILE_TOKENS) * 4;
      const pool = values + part * TILE_TOKENS;
      let row = weights + ((<usize>start) << 2);
      let factor = factors;
      for (let query = first; query < end; query += 2) {
        const own = clampTokens(tokensOf(query) - start);
        if (query + 1 === end) {
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
