/**
 * How a pool is laid out, and the model's shape, which every function of a kernel reads.
 *
 * A pool holds the keys, another the values, of one layer. Tokens lie in tiles of 16:
 *
 *     [block][KV head][tile of 16 tokens]
 *
 * So a block is contiguous, and attention reads it front to back. In a tile of floats
 *
 *     keys    [dimension][token]            a vector is one dimension of four tokens
 *     values  [dimension / 16][token][16]   a vector is four dimensions of one token
 *
 * and in a tile of bytes, which begins with a float for each token, the scale of its 8-bit numbers,
 *
 *     keys    [dimension / 2][token][2]                  half a vector is two dimensions of four tokens
 *     values  [dimension / 16][token / 2][16][2]         half a vector is four dimensions of two tokens
 *
 * Scores need no sums across lanes in either.
 */

export const TILE_TOKENS = 16;
/** One dimension of a key tile; one token in one part of a value tile. Both are 16 floats. */
export const LINE_BYTES: usize = 64;

export let heads: i32 = 0;
export let kvHeads: i32 = 0;
export let headBytes: usize = 0;
export let tileBytes: usize = 0;
/** One KV head's share of a block. */
export let blockHeadBytes: usize = 0;
let blockBytes: usize = 0;
let tilesPerBlock: u32 = 0;
/** What a score is multiplied with: log2(e) / sqrt(dimensions of a head), so that softmax takes powers of 2. */
export let scoreScale: f32 = 0;

/**
 * Sets the model's shape, before anything else is called. `headDimensions` and `blockTokens` are
 * multiples of 16, `queryHeads` is one of `keyValueHeads`, and a tile takes `bytesOfTile`.
 */
export function configureLayout(
  queryHeads: i32,
  keyValueHeads: i32,
  headDimensions: i32,
  blockTokens: i32,
  bytesOfTile: usize,
): void {
  heads = queryHeads;
  kvHeads = keyValueHeads;
  headBytes = (<usize>headDimensions) << 2;
  tileBytes = bytesOfTile;
  tilesPerBlock = blockTokens / TILE_TOKENS;
  blockHeadBytes = tileBytes * <usize>tilesPerBlock;
  blockBytes = blockHeadBytes * <usize>keyValueHeads;
  scoreScale = <f32>(Math.LOG2E / Math.sqrt(<f64>headDimensions));
}

/** What a block takes in either pool of a layer. */
export function blockByteLength(): i32 {
  return <i32>blockBytes;
}

/** Tiles that hold so many tokens, the last one perhaps in part. */
export function tilesOf(tokens: i32): usize {
  return (<usize>tokens + TILE_TOKENS - 1) / TILE_TOKENS;
}

/** Where a slot's tile lies in the pool, for the first KV head; `store` says what a slot is. */
export function tileOffsetOf(slot: u32): usize {
  const tile = slot / TILE_TOKENS;
  return <usize>(tile / tilesPerBlock) * blockBytes + <usize>(tile % tilesPerBlock) * tileBytes;
}

/**
 * Writes where a sequence's tiles lie, one u32 each: offsets in the pool, from a KV head's share of
 * block 0 on. The divisions are done here once, and not by every head and query.
 */
export function writeTileOffsets(offsets: usize, blockTable: usize, tileCount: u32): void {
  let block: usize = 0;
  let tileInBlock = tilesPerBlock;
  for (let tile: u32 = 0; tile < tileCount; tile++) {
    if (tileInBlock === tilesPerBlock) {
      block = <usize>load<u32>(blockTable) * blockBytes;
      blockTable += 4;
      tileInBlock = 0;
    }
    store<u32>(offsets, <u32>block);
    block += tileBytes;
    tileInBlock += 1;
    offsets += 4;
  }
}
