import { multiplyAdd } from "./lines";

/** Turns scores into weights relative to the largest, 0 past `tokens`, and returns their sum. */
export function softmax(scores: usize, tokens: i32): f32 {
  const count = i32x4.splat(tokens);
  const four = i32x4.splat(4);
  const end = scores + ((<usize>(tokens + 3) >> 2) << 4);
  const lowest = f32x4.splat(-f32.MAX_VALUE);

  let index = i32x4(0, 1, 2, 3);
  let highest = lowest;
  for (let line = scores; line < end; line += 16) {
    const score = v128.bitselect(v128.load(line), lowest, i32x4.lt_s(index, count));
    highest = f32x4.pmax(highest, score);
    index = i32x4.add(index, four);
  }
  const most = f32x4.splat(
    max(
      max(f32x4.extract_lane(highest, 0), f32x4.extract_lane(highest, 1)),
      max(f32x4.extract_lane(highest, 2), f32x4.extract_lane(highest, 3)),
    ),
  );

  index = i32x4(0, 1, 2, 3);
  let sum = f32x4.splat(0);
  for (let line = scores; line < end; line += 16) {
    const weight = v128.and(
      exponential(f32x4.sub(v128.load(line), most)),
      i32x4.lt_s(index, count),
    );
    v128.store(line, weight);
    sum = f32x4.add(sum, weight);
    index = i32x4.add(index, four);
  }
  return (
    f32x4.extract_lane(sum, 0) +
    f32x4.extract_lane(sum, 1) +
    (f32x4.extract_lane(sum, 2) + f32x4.extract_lane(sum, 3))
  );
}

/**
 * e^x for x <= 0, within two units in the last place; below -87 the answer is about 1e-38.
 *
 * x is split into n ln 2 + r with |r| <= ln 2 / 2 (ln 2 in two parts, so that r keeps its low bits);
 * e^r is Cephes' polynomial, and 2^n is built in the exponent bits.
 */
function exponential(argument: v128): v128 {
  const x = f32x4.pmax(argument, f32x4.splat(-87));
  const n = f32x4.nearest(f32x4.mul(x, f32x4.splat(1.44269504)));
  let r = f32x4.sub(x, f32x4.mul(n, f32x4.splat(0.693359375)));
  r = f32x4.sub(r, f32x4.mul(n, f32x4.splat(-2.1219444e-4)));
  let p = f32x4.splat(1.98756915e-4);
  p = multiplyAdd(f32x4.splat(1.3981999507e-3), p, r);
  p = multiplyAdd(f32x4.splat(8.3334519073e-3), p, r);
  p = multiplyAdd(f32x4.splat(4.1665795894e-2), p, r);
  p = multiplyAdd(f32x4.splat(1.6666665459e-1), p, r);
  p = multiplyAdd(f32x4.splat(5.0000001201e-1), p, r);
  p = f32x4.add(f32x4.add(f32x4.mul(p, f32x4.mul(r, r)), r), f32x4.splat(1));
  const exponent = i32x4.add(i32x4.trunc_sat_f32x4_s(n), i32x4.splat(127));
  return f32x4.mul(p, i32x4.shl(exponent, 23));
}
