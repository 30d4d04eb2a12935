const FLOAT = new Float32Array(1);
const BITS = new Uint32Array(FLOAT.buffer);

/** The bits of the nearest number in f16, ties to even; for numbers that f16 can hold. */
export function toHalf(value: number): number {
  FLOAT[0] = value;
  const bits = BITS[0] ?? 0;
  const sign = (bits >>> 16) & 0x8000;
  const exponent = ((bits >>> 23) & 0xff) - 127 + 15;
  const mantissa = (bits & 0x7fffff) | 0x800000;
  if (exponent >= 31) return sign | 0x7c00;
  // Below the smallest normal number of f16 the mantissa gives up its bits.
  const dropped = exponent > 0 ? 13 : 14 - exponent;
  if (dropped > 24) return sign;
  const kept = mantissa >>> dropped;
  const rest = mantissa & ((1 << dropped) - 1);
  const half = 1 << (dropped - 1);
  const rounded = kept + (rest > half || (rest === half && kept % 2 === 1) ? 1 : 0);
  // Adding, not joining, carries a mantissa that was rounded up into the exponent.
  return sign | (exponent > 0 ? ((exponent - 1) << 10) + rounded : rounded);
}
