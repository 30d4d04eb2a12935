import { BYTE_MAX, largestOf, LARGEST_MIN, toBytes, toIntegers, toShorts } from "./whole-numbers";

/** From a row's pair to its next one, where the row is alone. */
const PAIR_BYTES: usize = 4;
/** The same among four rows, whose pairs lie side by side. */
const FOURS_PAIR_BYTES: usize = 16;

/**
 * Quantizes rows of `columns` floats to i16, each row padded to two pairs, and writes each row's scale: a
 * value is its whole number times the scale. A row that holds a NaN gets the scale NaN, and with it
 * only NaN results.
 *
 * Rows lie in fours, since they are multiplied so, and those that are left over one by one:
 *
 *     [rows / 4][columns / 2][4 rows][2], then [columns / 2][2] for each row that is left
 */
export function quantizeRows(
  rows: usize,
  rowCount: i32,
  columns: i32,
  quantized: usize,
  scales: usize,
): void {
  const rowBytes = (<usize>columns) << 2;
  const pairsBytes = ((<usize>columns + 3) >> 2) * 2 * PAIR_BYTES;
  const inFours = rowCount & ~3;
  for (let row = 0; row < rowCount; row++) {
    const largest = max(largestOf(rows, columns), LARGEST_MIN);
    const factor: f32 = BYTE_MAX / largest;
    if (row < inFours) {
      const place = quantized + <usize>(row & 3) * PAIR_BYTES;
      quantizeAmongFour(rows, columns, factor, place);
      if ((row & 3) === 3) quantized += pairsBytes << 2;
    } else {
      quantizeAlone(rows, columns, factor, quantized);
      quantized += pairsBytes;
    }
    store<f32>(scales, largest / BYTE_MAX);
    rows += rowBytes;
    scales += 4;
  }
}

function quantizeAmongFour(row: usize, columns: i32, factor: f32, target: usize): void {
  const factors = f32x4.splat(factor);
  const wholeEnd = row + ((<usize>(columns & ~7)) << 2);
  for (; row < wholeEnd; row += 32) {
    const shorts = toShorts(row, factors);
    v128.store32_lane(target, shorts, 0);
    v128.store32_lane(target, shorts, 1, 16);
    v128.store32_lane(target, shorts, 2, 32);
    v128.store32_lane(target, shorts, 3, 48);
    target += 4 * FOURS_PAIR_BYTES;
  }
  quantizeRest(row, columns & 7, factor, target, FOURS_PAIR_BYTES);
}

function quantizeAlone(row: usize, columns: i32, factor: f32, target: usize): void {
  const factors = f32x4.splat(factor);
  const wholeEnd = row + ((<usize>(columns & ~7)) << 2);
  for (; row < wholeEnd; row += 32) {
    v128.store(target, toShorts(row, factors));
    target += 4 * PAIR_BYTES;
  }
  quantizeRest(row, columns & 7, factor, target, PAIR_BYTES);
}

/** What is left behind the last whole vector, filled up with zeros to two pairs. */
function quantizeRest(
  values: usize,
  columns: i32,
  factor: f32,
  target: usize,
  pairBytes: usize,
): void {
  const padded = (columns + 3) & ~3;
  for (let column = 0; column < padded; column += 2) {
    store<i16>(target, column < columns ? quantizeOne(values, factor) : 0);
    store<i16>(target, column + 1 < columns ? quantizeOne(values + 4, factor) : 0, 2);
    values += 8;
    target += pairBytes;
  }
}

function quantizeOne(value: usize, factor: f32): i16 {
  return <i16>i32x4.extract_lane(toIntegers(f32x4.splat(load<f32>(value) * factor)), 0);
}

/**
 * The same as `quantizeRows`, but as bytes that are 128 more than they mean, without padding: what ONNX
 * Runtime multiplies.
 */
export function quantizeToBytes(
  rows: usize,
  rowCount: i32,
  columns: i32,
  bytes: usize,
  scales: usize,
): void {
  const wholeVectors = columns & ~7;
  const signBits = i8x16.splat(-128);
  for (let row = 0; row < rowCount; row++) {
    const largest = max(largestOf(rows, columns), LARGEST_MIN);
    const factor: f32 = BYTE_MAX / largest;
    const factors = f32x4.splat(factor);
    let column = 0;
    for (; column < wholeVectors; column += 8) {
      v128.store64_lane(bytes, v128.xor(toBytes(rows, factors), signBits), 0);
      rows += 32;
      bytes += 8;
    }
    for (; column < columns; column++) {
      store<u8>(bytes, <u8>(quantizeOne(rows, factor) + 128));
      rows += 4;
      bytes += 1;
    }
    store<f32>(scales, largest / BYTE_MAX);
    scales += 4;
  }
}

/**
 * Makes floats of sums of products, by the scales of their row and of their output, operation for
 * operation as `multiply` does. `results` may be `sums`.
 */
export function scaleSums(
  sums: usize,
  rowScales: usize,
  rowCount: i32,
  outputScales: usize,
  outputs: i32,
  results: usize,
): void {
  const rowEnd = (<usize>outputs) << 2;
  const wholeEnd = rowEnd & ~15;
  for (let row = 0; row < rowCount; row++) {
    const rowScale = load<f32>(rowScales);
    const scale = f32x4.splat(rowScale);
    let offset: usize = 0;
    for (; offset < wholeEnd; offset += 16) {
      const values = f32x4.mul(f32x4.convert_i32x4_s(v128.load(sums + offset)), scale);
      v128.store(results + offset, f32x4.mul(values, v128.load(outputScales + offset)));
    }
    for (; offset < rowEnd; offset += 4) {
      const value = <f32>load<i32>(sums + offset) * rowScale;
      store<f32>(results + offset, value * load<f32>(outputScales + offset));
    }
    sums += rowEnd;
    results += rowEnd;
    rowScales += 4;
  }
}
