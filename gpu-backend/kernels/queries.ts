import { blockHeadBytes, headBytes, heads, kvHeads, LINE_BYTES, tilesOf } from "./pool-layout";

/**
 * Queries that are computed together, by pairs: what they all see is loaded for each pair once.
 *
 * Each of the four inner loops, of scores and of values in floats and in bytes, is written twice, for a
 * pair and for a query without neighbour. A function returns one value here, so loops in common would
 * have to leave their sums in memory with every tile; and one that is called by a loop in common would be
 * an object in a memory that is ONNX Runtime's.
 */
export const QUERIES_MAX = 16;

/** Where queries are read, and where results are written. */
let inputs: usize = 0;
let inputRowBytes: usize = 0;
let results: usize = 0;
let resultRowBytes: usize = 0;
let position: i32 = 0;
/** Queries that share a KV head in each row, and in all rows. */
let group: i32 = 0;
let queryCount: i32 = 0;

/** The queries at hand, all of one KV head: from this one until before `endQuery`. */
export let firstQuery: i32 = 0;
export let endQuery: i32 = 0;
/** Where that head's share of a block lies in the block. */
export let headOffset: usize = 0;
/** A row of scores, one for each token of the sequence in whole tiles. */
export let scoreBytes: usize = 0;
let kvHead: i32 = 0;

/** Begins with the queries of some rows; see `attend` in `paged-attention.ts`. */
export function beginQueries(
  queries: usize,
  queryRowBytes: usize,
  outputs: usize,
  outputRowBytes: usize,
  rowCount: i32,
  firstPosition: i32,
): void {
  inputs = queries;
  inputRowBytes = queryRowBytes;
  results = outputs;
  resultRowBytes = outputRowBytes;
  position = firstPosition;
  group = heads / kvHeads;
  queryCount = rowCount * group;
  scoreBytes = tilesOf(firstPosition + rowCount) * LINE_BYTES;
  kvHead = 0;
  headOffset = 0;
  endQuery = 0;
}

/**
 * Goes on to the next queries, and says whether there are any. Those of one KV head are numbered by
 * row and, within a row, by head.
 */
export function nextQueries(): bool {
  if (endQuery === queryCount) {
    kvHead += 1;
    headOffset += blockHeadBytes;
    endQuery = 0;
  }
  firstQuery = endQuery;
  endQuery = min(firstQuery + QUERIES_MAX, queryCount);
  return kvHead < kvHeads;
}

/** How many tokens a query sees. */
export function tokensOf(query: i32): i32 {
  return position + query / group + 1;
}

/** How many tokens a pair of queries sees, the second of which may be missing. */
export function tokensOfPair(query: i32): i32 {
  return tokensOf(min(query + 1, endQuery - 1));
}

/** How many tokens the queries at hand see. */
export function tokensOfAll(): i32 {
  return tokensOf(endQuery - 1);
}

/** Address of a query. */
export function inputOf(query: i32): usize {
  return inputs + <usize>(query / group) * inputRowBytes + offsetOf(query);
}

/** Address of a query's result. */
export function resultOf(query: i32): usize {
  return results + <usize>(query / group) * resultRowBytes + offsetOf(query);
}

function offsetOf(query: i32): usize {
  return <usize>(kvHead * group + (query % group)) * headBytes;
}

/** Clears a query's result; a call of `memory.fill` would take longer. */
export function clearResult(query: i32): void {
  const result = resultOf(query);
  const resultEnd = result + headBytes;
  for (let line = result; line < resultEnd; line += LINE_BYTES) {
    v128.store(line, f32x4.splat(0));
    v128.store(line, f32x4.splat(0), 16);
    v128.store(line, f32x4.splat(0), 32);
    v128.store(line, f32x4.splat(0), 48);
  }
}
