/**
 * The part of sampling that looks at every token of the vocabulary, in AssemblyScript with 128-bit
 * SIMD. `build.mjs` compiles it to the committed `sampling.wasm`. The memory is the caller's.
 *
 * Everything is f64, so that sums lose nothing that a draw could show, and tokens are added up in two
 * lanes, those with even ids and those with odd ones. `gpu-backend/engine/sampling-math.ts` computes
 * the same in TypeScript, operation for operation, and tests demand the same bits.
 */

const LOG2_E: f64 = 1.4426950408889634;
/** ln 2 in two parts: products of the first with whole numbers are exact. */
const LN2_HIGH: f64 = 0.6931471803691238;
const LN2_LOW: f64 = 1.9082149292705877e-10;
/** Added to a number of less than 2^51 it rounds that to a whole one, which its lowest bits then hold. */
const ROUNDER: f64 = 6755399441055744;
const EXPONENT_BIAS: f64 = 1023;
const POWER_MIN: f64 = -1000;

/**
 * The token with the largest logit, the lowest id among equals, or -1 if one is not finite. `fours` is
 * the count of tokens in fours, the last ones padded with the lowest number.
 */
export function bestOf(logits: usize, fours: i32): i32 {
  const end = logits + ((<usize>fours) << 4);
  const zero = f32x4.splat(0);
  let most = f32x4.splat(-f32.MAX_VALUE);
  let odd = zero;
  for (let line = logits; line < end; line += 16) {
    const values = v128.load(line);
    most = f32x4.pmax(most, values);
    // Of numbers that are not finite none is 0 from itself.
    odd = v128.or(odd, f32x4.ne(f32x4.sub(values, values), zero));
  }
  if (v128.any_true(odd)) return -1;
  const largest = f32x4.splat(
    max(
      max(f32x4.extract_lane(most, 0), f32x4.extract_lane(most, 1)),
      max(f32x4.extract_lane(most, 2), f32x4.extract_lane(most, 3)),
    ),
  );
  for (let line = logits; line < end; line += 16) {
    const found = i32x4.bitmask(f32x4.eq(v128.load(line), largest));
    if (found !== 0) return <i32>((line - logits) >> 2) + ctz(found);
  }
  return -1;
}

/** Makes scores of logits. */
export function widen(logits: usize, pairs: i32, scores: usize): void {
  for (let pair = 0; pair < pairs; pair++) {
    v128.store(scores, f64x2.promote_low_f32x4(v128.load64_zero(logits)));
    logits += 8;
    scores += 16;
  }
}

/** Copies the values of at least `lowest`, in their order, and returns how many there are. */
export function gather(values: usize, pairs: i32, lowest: f64, target: usize): i32 {
  const start = target;
  const lowests = f64x2.splat(lowest);
  for (let pair = 0; pair < pairs; pair++) {
    const isKept = f64x2.ge(v128.load(values), lowests);
    if (v128.any_true(isKept)) {
      const found = i64x2.bitmask(isKept);
      if (found & 1) {
        f64.store(target, f64.load(values));
        target += 8;
      }
      if (found & 2) {
        f64.store(target, f64.load(values, 8));
        target += 8;
      }
    }
    values += 16;
  }
  return <i32>((target - start) >> 3);
}

/**
 * The token at which the weights of at least `cut`, added up in the order of ids, pass `target`; the
 * last one of them if they never do, and -1 if there is none. A weight of 0 is none.
 */
export function draw(weights: usize, pairs: i32, cut: f64, target: f64): i32 {
  const lowest = f64x2.splat(max(cut, f64.MIN_VALUE));
  let passed: f64 = 0;
  let last = -1;
  for (let pair = 0; pair < pairs; pair++) {
    const isKept = f64x2.ge(v128.load(weights), lowest);
    if (v128.any_true(isKept)) {
      const found = i64x2.bitmask(isKept);
      if (found & 1) {
        passed += f64.load(weights);
        last = pair << 1;
        if (passed > target) return last;
      }
      if (found & 2) {
        passed += f64.load(weights, 8);
        last = (pair << 1) + 1;
        if (passed > target) return last;
      }
    }
    weights += 16;
  }
  return last;
}

/**
 * Writes exp((score - best) × inverseTemperature) for each score of at least `cut`, and 0 for others;
 * returns the sum. `pairs` is the count of tokens in twos, the last one padded.
 */
export function weigh(
  scores: usize,
  pairs: i32,
  best: f64,
  inverseTemperature: f64,
  cut: f64,
  weights: usize,
): f64 {
  const bests = f64x2.splat(best);
  const factors = f64x2.splat(inverseTemperature);
  const cuts = f64x2.splat(cut);
  let sums = f64x2.splat(0);
  for (let pair = 0; pair < pairs; pair++) {
    const score = v128.load(scores);
    const gap = f64x2.mul(f64x2.sub(score, bests), factors);
    const weight = v128.and(exponential(gap), f64x2.ge(score, cuts));
    v128.store(weights, weight);
    sums = f64x2.add(sums, weight);
    scores += 16;
    weights += 16;
  }
  return f64x2.extract_lane(sums, 0) + f64x2.extract_lane(sums, 1);
}

/** The sum of all weights of at least `cut`. */
export function sumFrom(weights: usize, pairs: i32, cut: f64): f64 {
  const cuts = f64x2.splat(cut);
  let sums = f64x2.splat(0);
  for (let pair = 0; pair < pairs; pair++) {
    const weight = v128.load(weights);
    sums = f64x2.add(sums, v128.and(weight, f64x2.ge(weight, cuts)));
    weights += 16;
  }
  return f64x2.extract_lane(sums, 0) + f64x2.extract_lane(sums, 1);
}

/**
 * e^x for x <= 0; below -693 the answer is about 1e-301. x is split into n ln 2 + r with |r| <= ln 2 / 2;
 * e^r is its series as far as f64 can tell, and 2^n is built in the exponent bits.
 */
function exponential(argument: v128): v128 {
  const power = f64x2.pmax(f64x2.mul(argument, f64x2.splat(LOG2_E)), f64x2.splat(POWER_MIN));
  const rounder = f64x2.splat(ROUNDER + EXPONENT_BIAS);
  const shifted = f64x2.add(power, rounder);
  const n = f64x2.sub(shifted, rounder);
  // Where the power was raised to its minimum, r would be anything.
  const x = f64x2.pmax(argument, f64x2.splat(POWER_MIN * 0.6931471805599453));
  let r = f64x2.sub(x, f64x2.mul(n, f64x2.splat(LN2_HIGH)));
  r = f64x2.sub(r, f64x2.mul(n, f64x2.splat(LN2_LOW)));
  let p = f64x2.splat(1.6059043836821613e-10);
  p = step(p, r, 2.08767569878681e-9);
  p = step(p, r, 2.505210838544172e-8);
  p = step(p, r, 2.755731922398589e-7);
  p = step(p, r, 2.7557319223985893e-6);
  p = step(p, r, 2.48015873015873e-5);
  p = step(p, r, 1.984126984126984e-4);
  p = step(p, r, 1.388888888888889e-3);
  p = step(p, r, 8.333333333333333e-3);
  p = step(p, r, 4.1666666666666664e-2);
  p = step(p, r, 0.16666666666666666);
  p = step(p, r, 0.5);
  p = step(p, r, 1);
  p = step(p, r, 1);
  return f64x2.mul(p, i64x2.shl(shifted, 52));
}

/** `p × r + coefficient`, rounded twice. */
function step(p: v128, r: v128, coefficient: f64): v128 {
  return f64x2.add(f64x2.mul(p, r), f64x2.splat(coefficient));
}
