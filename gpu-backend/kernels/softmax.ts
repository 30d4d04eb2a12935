import { powerOfTwo } from "./power-of-two";

/**
 * Turns scores, which are logarithms to base 2, into weights relative to the largest, 0 past `tokens`
 * up to the next vector, and returns their sum.
 */
export function softmax(scores: usize, tokens: i32): f32 {
  const wholeEnd = scores + ((<usize>tokens >> 2) << 4);
  const most = f32x4.splat(largestOf(scores, wholeEnd, tokens));
  let sum = f32x4.splat(0);
  let line = scores;
  for (; line < wholeEnd; line += 16) {
    const weight = powerOfTwo(f32x4.sub(v128.load(line), most));
    v128.store(line, weight);
    sum = f32x4.add(sum, weight);
  }
  if (tokens & 3) {
    const weight = v128.and(powerOfTwo(f32x4.sub(v128.load(line), most)), tailMask(tokens));
    v128.store(line, weight);
    sum = f32x4.add(sum, weight);
  }
  return (
    f32x4.extract_lane(sum, 0) +
    f32x4.extract_lane(sum, 1) +
    (f32x4.extract_lane(sum, 2) + f32x4.extract_lane(sum, 3))
  );
}

/** Ones in the lanes of the last, incomplete vector that hold tokens. */
function tailMask(tokens: i32): v128 {
  return i32x4.lt_s(i32x4(0, 1, 2, 3), i32x4.splat(tokens & 3));
}

/** The largest score; one that is NaN does not count, but makes the sum NaN. */
function largestOf(scores: usize, wholeEnd: usize, tokens: i32): f32 {
  const lowest = f32x4.splat(-f32.MAX_VALUE);
  let a = lowest;
  let b = lowest;
  let line = scores;
  for (; line + 32 <= wholeEnd; line += 32) {
    a = f32x4.pmax(a, v128.load(line));
    b = f32x4.pmax(b, v128.load(line, 16));
  }
  if (line < wholeEnd) a = f32x4.pmax(a, v128.load(line));
  if (tokens & 3) {
    b = f32x4.pmax(b, v128.bitselect(v128.load(wholeEnd), lowest, tailMask(tokens)));
  }
  a = f32x4.pmax(a, b);
  return max(
    max(f32x4.extract_lane(a, 0), f32x4.extract_lane(a, 1)),
    max(f32x4.extract_lane(a, 2), f32x4.extract_lane(a, 3)),
  );
}
