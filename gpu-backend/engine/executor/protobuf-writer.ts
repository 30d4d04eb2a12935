const VARINT = 0;
const LENGTH_DELIMITED = 2;
const FIXED_32 = 5;

/**
 * Writes one protobuf message, field after field.
 *
 * Bytes that are handed in are kept by reference and copied once, by `toBytes`: a segment's weights
 * are most of its model, and copying them at every level of nesting would multiply the peak memory.
 */
export class ProtobufWriter {
  readonly #chunks: Uint8Array[] = [];
  #byteLength = 0;

  /** Writes an int32, int64 or enum field. Negative numbers take ten bytes, as the format demands. */
  integer(field: number, value: number | bigint): this {
    this.#tag(field, VARINT);
    this.#append(varint(BigInt(value)));
    return this;
  }

  /** Writes a `float` field. */
  float(field: number, value: number): this {
    this.#tag(field, FIXED_32);
    const bytes = new Uint8Array(4);
    new DataView(bytes.buffer).setFloat32(0, value, true);
    this.#append(bytes);
    return this;
  }

  /** Writes a `bytes` field. The bytes must not change before `toBytes`. */
  bytes(field: number, value: Uint8Array): this {
    this.#tag(field, LENGTH_DELIMITED);
    this.#append(varint(BigInt(value.byteLength)));
    this.#append(value);
    return this;
  }

  /** Writes a `string` field as UTF-8. */
  text(field: number, value: string): this {
    return this.bytes(field, new TextEncoder().encode(value));
  }

  /** Writes a nested message, which must be complete. */
  message(field: number, value: ProtobufWriter): this {
    this.#tag(field, LENGTH_DELIMITED);
    this.#append(varint(BigInt(value.#byteLength)));
    for (const chunk of value.#chunks) this.#append(chunk);
    return this;
  }

  /** The encoded message, in a buffer of its own. */
  toBytes(): Uint8Array {
    const encoded = new Uint8Array(this.#byteLength);
    let offset = 0;
    for (const chunk of this.#chunks) {
      encoded.set(chunk, offset);
      offset += chunk.byteLength;
    }
    return encoded;
  }

  #tag(field: number, wireType: number): void {
    this.#append(varint(BigInt(field * 8 + wireType)));
  }

  #append(chunk: Uint8Array): void {
    this.#chunks.push(chunk);
    this.#byteLength += chunk.byteLength;
  }
}

/** Seven bits a byte, the lowest first; the high bit says that more follow. */
function varint(value: bigint): Uint8Array {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, value);
  while (rest > 0x7fn) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  bytes.push(Number(rest));
  return Uint8Array.from(bytes);
}
