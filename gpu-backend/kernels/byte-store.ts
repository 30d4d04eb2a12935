import { headBytes, LINE_BYTES, TILE_TOKENS } from "./pool-layout";
import { BYTE_MAX, largestOf, LARGEST_MIN, toBytes } from "./whole-numbers";

/** Quantizes a key by its own largest value and stores it in its lane of a tile. */
export function storeKey(key: usize, tile: usize, lane: usize): void {
  const factors = storeScale(key, tile, lane);
  const end = key + headBytes;
  let column = tile + LINE_BYTES + (lane << 1);
  for (; key < end; key += 32) {
    const bytes = toBytes(key, factors);
    v128.store16_lane(column, bytes, 0);
    v128.store16_lane(column, bytes, 1, 32);
    v128.store16_lane(column, bytes, 2, 64);
    v128.store16_lane(column, bytes, 3, 96);
    column += 128;
  }
}

/** The same for a value. */
export function storeValue(value: usize, tile: usize, lane: usize): void {
  const factors = storeScale(value, tile, lane);
  const end = value + headBytes;
  let line = tile + LINE_BYTES + ((lane >> 1) << 5) + (lane & 1);
  for (; value < end; value += LINE_BYTES) {
    storeEight(line, toBytes(value, factors));
    storeEight(line + 16, toBytes(value + 32, factors));
    line += <usize>TILE_TOKENS * 16;
  }
}

/** Stores the scale of one token, and returns what its numbers are multiplied with to be whole. */
function storeScale(head: usize, tile: usize, lane: usize): v128 {
  const largest = max(largestOf(head, <i32>(headBytes >> 2)), LARGEST_MIN);
  f32.store(tile + (lane << 2), largest / BYTE_MAX);
  return f32x4.splat(BYTE_MAX / largest);
}

/** Every other byte is another token's. */
function storeEight(line: usize, bytes: v128): void {
  v128.store8_lane(line, bytes, 0);
  v128.store8_lane(line, bytes, 1, 2);
  v128.store8_lane(line, bytes, 2, 4);
  v128.store8_lane(line, bytes, 3, 6);
  v128.store8_lane(line, bytes, 4, 8);
  v128.store8_lane(line, bytes, 5, 10);
  v128.store8_lane(line, bytes, 6, 12);
  v128.store8_lane(line, bytes, 7, 14);
}
