import { BYTE_MAX, largestOf, LARGEST_MIN, toBytes, toIntegers, toShorts } from "./whole-numbers";

/**
 * Quantizes rows of `columns` floats to i16, each row padded to pairs, and writes each row's scale: a
 * value is its whole number times the scale. A row that holds a NaN gets the scale NaN, and with it
 * only NaN results.
 */
export function quantizeRows(
  rows: usize,
  rowCount: i32,
  columns: i32,
  quantized: usize,
  scales: usize,
): void {
  const wholeVectors = columns & ~7;
  for (let row = 0; row < rowCount; row++) {
    const largest = max(largestOf(rows, columns), LARGEST_MIN);
    const factor: f32 = BYTE_MAX / largest;
    const factors = f32x4.splat(factor);
    let column = 0;
    for (; column < wholeVectors; column += 8) {
      v128.store(quantized, toShorts(rows, factors));
      rows += 32;
      quantized += 16;
    }
    for (; column < columns; column++) {
      const value = f32x4.splat(load<f32>(rows) * factor);
      store<i16>(quantized, <i16>i32x4.extract_lane(toIntegers(value), 0));
      rows += 4;
      quantized += 2;
    }
    if (columns & 1) {
      store<i16>(quantized, 0);
      quantized += 2;
    }
    store<f32>(scales, largest / BYTE_MAX);
    scales += 4;
  }
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
      const value = f32x4.splat(load<f32>(rows) * factor);
      store<u8>(bytes, <u8>(i32x4.extract_lane(toIntegers(value), 0) + 128));
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
