import { powerOfTwo } from "./power-of-two";

/** What a gate is passed through. */
export const SILU = 0;
export const GELU = 1;

const LOG2_E: f32 = 1.44269504;
/** Of GELU by tanh: 2 × sqrt(2 / pi), and the weight of the cube. */
const GELU_SLOPE: f32 = 1.5957691;
const GELU_CUBIC: f32 = 0.044715;

/**
 * Computes activation(gate) × up; a row of `gatesAndUps` holds `columns` gates and, behind them, their
 * ups. A kernel calls it with one activation only, so the choice costs nothing.
 */
export function gateRows(
  activation: i32,
  gatesAndUps: usize,
  rowCount: i32,
  columns: i32,
  results: usize,
): void {
  const rowBytes = (<usize>columns) << 2;
  const wholeBytes = rowBytes & ~15;
  for (let row = 0; row < rowCount; row++) {
    const ups = gatesAndUps + rowBytes;
    let offset: usize = 0;
    for (; offset < wholeBytes; offset += 16) {
      const activated = activate(activation, v128.load(gatesAndUps + offset));
      v128.store(results + offset, f32x4.mul(activated, v128.load(ups + offset)));
    }
    for (; offset < rowBytes; offset += 4) {
      const activated = activate(activation, v128.load32_splat(gatesAndUps + offset));
      const up = f32.load(ups + offset);
      f32.store(results + offset, f32x4.extract_lane(activated, 0) * up);
    }
    gatesAndUps += rowBytes << 1;
    results += rowBytes;
  }
}

function activate(activation: i32, x: v128): v128 {
  return timesSigmoid(x, activation === GELU ? geluLogit(x) : x);
}

/** u = 2 × sqrt(2 / pi) × (x + 0.044715 x³): x × sigmoid(u) is what GELU by tanh comes to. */
function geluLogit(x: v128): v128 {
  const square = f32x4.mul(x, x);
  const cubic = f32x4.add(f32x4.splat(1), f32x4.mul(square, f32x4.splat(GELU_CUBIC)));
  return f32x4.mul(f32x4.mul(x, cubic), f32x4.splat(GELU_SLOPE));
}

/** x × sigmoid(u), by the power of a number that is never positive, so that nothing overflows. */
function timesSigmoid(x: v128, u: v128): v128 {
  const one = f32x4.splat(1);
  const power = powerOfTwo(f32x4.mul(f32x4.neg(f32x4.abs(u)), f32x4.splat(LOG2_E)));
  const numerator = v128.bitselect(power, one, f32x4.lt(u, f32x4.splat(0)));
  return f32x4.mul(x, f32x4.div(numerator, f32x4.add(one, power)));
}
