/** What an element of a tensor takes, for the kinds that are read. */
export const BYTES_PER_ELEMENT = { F16: 2, BF16: 2, F32: 4 } as const;
export type ElementType = keyof typeof BYTES_PER_ELEMENT;

export function isElementType(dtype: string): dtype is ElementType {
  return Object.hasOwn(BYTES_PER_ELEMENT, dtype);
}

const F32_EXPONENT = 0x7f800000;

/**
 * Widens elements to f32, exactly, and returns the place of the first that is no number, -1 if all
 * are. `bytes` begins at a multiple of 4 of its buffer; it is little-endian, as is every machine Node runs on.
 */
export function widen(bytes: Uint8Array, type: ElementType, values: Float32Array): number {
  const { buffer, byteOffset } = bytes;
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  if (type === "F32") bits.set(new Uint32Array(buffer, byteOffset, values.length));
  else {
    const halves = new Uint16Array(buffer, byteOffset, values.length);
    if (type === "BF16") widenBfloat16(halves, bits);
    else widenFloat16(halves, bits);
  }
  for (let index = 0; index < bits.length; index++) {
    if (((bits[index] ?? 0) & F32_EXPONENT) === F32_EXPONENT) return index;
  }
  return -1;
}

/** A bfloat16 is the upper half of an f32. */
function widenBfloat16(halves: Uint16Array, bits: Uint32Array): void {
  for (let index = 0; index < halves.length; index++) bits[index] = (halves[index] ?? 0) << 16;
}

function widenFloat16(halves: Uint16Array, bits: Uint32Array): void {
  for (let index = 0; index < halves.length; index++) bits[index] = float16Bits(halves[index] ?? 0);
}

/** The f32 bits of a half-precision number. */
function float16Bits(half: number): number {
  const sign = (half & 0x8000) << 16;
  const exponent = (half >> 10) & 0x1f;
  const fraction = half & 0x3ff;
  if (exponent === 0x1f) return sign | F32_EXPONENT | (fraction << 13);
  if (exponent > 0) return sign | ((exponent + 112) << 23) | (fraction << 13);
  if (fraction === 0) return sign;
  // A subnormal half is a normal f32: shift the fraction up until its leading bit is implied.
  const shift = Math.clz32(fraction) - 21;
  return sign | ((113 - shift) << 23) | (((fraction << shift) & 0x3ff) << 13);
}
