/** What a row's largest value is taken for at least: a row of zeros must not divide by zero. */
export const LARGEST_MIN: f32 = 1e-8;

/** The nearest whole numbers; NaN becomes 0. */
export function toIntegers(values: v128): v128 {
  return i32x4.trunc_sat_f32x4_s(f32x4.nearest(values));
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
