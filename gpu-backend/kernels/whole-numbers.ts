/** What the largest value of a row, key or value becomes where its numbers are bytes. */
export const BYTE_MAX: f32 = 127;
/** The same where they have 16 bits, of a query or of weights. */
export const SHORT_MAX: f32 = 32767;
/** What a row's largest value is taken for at least: a row of zeros must not divide by zero. */
export const LARGEST_MIN: f32 = 1e-8;

/** The nearest whole numbers; NaN becomes 0. */
export function toIntegers(values: v128): v128 {
  return i32x4.trunc_sat_f32x4_s(f32x4.nearest(values));
}

/** Eight floats times `factors` as 16-bit whole numbers. */
export function toShorts(floats: usize, factors: v128): v128 {
  const low = toIntegers(f32x4.mul(v128.load(floats), factors));
  const high = toIntegers(f32x4.mul(v128.load(floats, 16), factors));
  return i16x8.narrow_i32x4_s(low, high);
}

/** Eight floats times `factors` as bytes, in the low half. */
export function toBytes(floats: usize, factors: v128): v128 {
  const shorts = toShorts(floats, factors);
  return i8x16.narrow_i16x8_s(shorts, shorts);
}

/** Adds the products of pairs of 16-bit numbers, which the caller keeps far from overflow in 32 bits. */
export function addProducts(sums: v128, numbers: v128, pair: v128): v128 {
  return i32x4.add(sums, i32x4.dot_i16x8_s(numbers, pair));
}

/**
 * The largest absolute value of a row. Without their signs floats order like the integers of their
 * bits, and NaN comes after all numbers, so it wins.
 */
export function largestOf(row: usize, columns: i32): f32 {
  const withoutSign = i32x4.splat(0x7fffffff);
  let largest = i32x4.splat(0);
  let column = 0;
  for (; column + 4 <= columns; column += 4) {
    largest = i32x4.max_s(largest, v128.and(v128.load(row), withoutSign));
    row += 16;
  }
  for (; column < columns; column++) {
    largest = i32x4.max_s(largest, v128.and(v128.load32_splat(row), withoutSign));
    row += 4;
  }
  return reinterpret<f32>(
    max(
      max(i32x4.extract_lane(largest, 0), i32x4.extract_lane(largest, 1)),
      max(i32x4.extract_lane(largest, 2), i32x4.extract_lane(largest, 3)),
    ),
  );
}
