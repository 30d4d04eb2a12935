/** What the platform lends to the derivations; `src` itself has none of it. */
export interface KeyPrimitives {
  readonly hmacSha256: (key: Uint8Array, message: Uint8Array) => Uint8Array;
  /** Of the parts as if they were one. */
  readonly sha256: (...parts: readonly Uint8Array[]) => Uint8Array;
  readonly encodeUtf8: (text: string) => Uint8Array;
}

// Each derived value has a tag of its own before every field, and every field carries its length:
// no two different lists of fields are ever the same bytes.
export function field(tag: number, bytes: Uint8Array): Uint8Array {
  return concatenate(Uint8Array.of(tag), uint32(bytes.length), bytes);
}

/** Four bytes, most significant first. */
export function uint32(value: number): Uint8Array {
  return Uint8Array.of(value >>> 24, value >>> 16, value >>> 8, value);
}

export function concatenate(...parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let offset = 0;
  for (const part of parts) {
    whole.set(part, offset);
    offset += part.length;
  }
  return whole;
}
