import { LINE_BYTES } from "./pool-layout";

/** `sum + factor * value`, rounded twice: wasm has no fused form that is the same on all machines. */
export function multiplyAdd(sum: v128, factor: v128, value: v128): v128 {
  return f32x4.add(sum, f32x4.mul(factor, value));
}

/** Stores 16 floats, each multiplied with `factor`. */
export function storeScaled(
  line: usize,
  factor: v128,
  v0: v128,
  v1: v128,
  v2: v128,
  v3: v128,
): void {
  v128.store(line, f32x4.mul(v0, factor));
  v128.store(line, f32x4.mul(v1, factor), 16);
  v128.store(line, f32x4.mul(v2, factor), 32);
  v128.store(line, f32x4.mul(v3, factor), 48);
}

/** Copies 16 floats. */
export function copyLine(target: usize, source: usize): void {
  v128.store(target, v128.load(source));
  v128.store(target, v128.load(source, 16), 16);
  v128.store(target, v128.load(source, 32), 32);
  v128.store(target, v128.load(source, 48), 48);
}
