import { multiplyAdd } from "./lines";

/** Added to a number of less than 2^22 it rounds that to a whole one, which its lowest bits then hold. */
const ROUNDER: f32 = 12582912;
/** The exponent bits of 1. */
const EXPONENT_BIAS: f32 = 127;

/**
 * 2^x for x <= 0, within two units in the last place; below -126 the answer is about 1e-38. NaN stays.
 *
 * x is split into a whole number, which becomes the exponent, and a rest of at most a half; of that it
 * is Cephes' polynomial.
 */
export function powerOfTwo(argument: v128): v128 {
  const x = f32x4.pmax(argument, f32x4.splat(-126));
  const rounder = f32x4.splat(ROUNDER + EXPONENT_BIAS);
  const shifted = f32x4.add(x, rounder);
  const rest = f32x4.sub(x, f32x4.sub(shifted, rounder));
  let p = f32x4.splat(1.5353362e-4);
  p = multiplyAdd(f32x4.splat(1.3398874e-3), p, rest);
  p = multiplyAdd(f32x4.splat(9.6184373e-3), p, rest);
  p = multiplyAdd(f32x4.splat(5.5503325e-2), p, rest);
  p = multiplyAdd(f32x4.splat(2.4022648e-1), p, rest);
  p = multiplyAdd(f32x4.splat(6.931472e-1), p, rest);
  p = multiplyAdd(f32x4.splat(1), p, rest);
  return f32x4.mul(p, i32x4.shl(shifted, 23));
}
