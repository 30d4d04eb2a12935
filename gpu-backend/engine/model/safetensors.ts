import type { FileHandle } from "node:fs/promises";
import * as z from "zod";
import { ModelError } from "./model-error.ts";
import { parseJson } from "./parse-json.ts";

const BYTES_PER_ELEMENT = { F16: 2, BF16: 2, F32: 4 } as const;
type ElementType = keyof typeof BYTES_PER_ELEMENT;

const LENGTH_BYTES = 8;
/** The format's own limit. */
const HEADER_BYTES_MAX = 100_000_000;
const DIMENSIONS_MAX = 8;
/** One read of the operating system takes less than 2 GiB. */
const READ_BYTES_MAX = 1 << 30;

const Entry = z.object({
  dtype: z.string().max(16),
  shape: z.array(z.int().min(0)).max(DIMENSIONS_MAX),
  data_offsets: z.tuple([z.int().min(0), z.int().min(0)]),
});
type Entry = z.infer<typeof Entry>;

/**
 * An open safetensors file: its header is read and checked, its tensors are read on demand.
 *
 * The header comes from a stranger, so nothing in it is believed: every tensor must lie inside the
 * file, have exactly the bytes of its shape, and overlap no other.
 */
export class SafetensorsFile {
  readonly #file: FileHandle;
  readonly #path: string;
  readonly #entries: ReadonlyMap<string, Entry>;
  readonly #firstByte: number;

  private constructor(
    file: FileHandle,
    path: string,
    entries: ReadonlyMap<string, Entry>,
    firstByte: number,
  ) {
    this.#file = file;
    this.#path = path;
    this.#entries = entries;
    this.#firstByte = firstByte;
  }

  /** Reads the header of an open file, which stays the caller's to close. Throws a `ModelError`. */
  static async open(file: FileHandle, path: string): Promise<SafetensorsFile> {
    const { size } = await file.stat();
    if (size < LENGTH_BYTES) {
      throw new ModelError(`${path} has ${size} bytes, too few for a safetensors file`);
    }
    const length = (await readBytes(file, path, 0, LENGTH_BYTES)).readBigUInt64LE();
    const headerBytesMax = Math.min(HEADER_BYTES_MAX, size - LENGTH_BYTES);
    if (length > BigInt(headerBytesMax)) {
      throw new ModelError(
        `${path}: the header claims ${length} bytes, but at most ${headerBytesMax} are possible; the file is cut off or no safetensors file`,
      );
    }
    const headerBytes = Number(length);
    const header = await readBytes(file, path, LENGTH_BYTES, headerBytes);
    const firstByte = LENGTH_BYTES + headerBytes;
    const entries = parseHeader(header.toString("utf8"), path);
    checkExtents(entries, size - firstByte, path);
    return new SafetensorsFile(file, path, entries, firstByte);
  }

  get names(): Iterable<string> {
    return this.#entries.keys();
  }

  /** Reads one tensor as f32, row-major. Throws a `ModelError` if it is absent or has another shape. */
  async read(name: string, shape: readonly number[]): Promise<Float32Array> {
    const entry = this.#entries.get(name);
    if (entry === undefined) {
      throw new ModelError(`${this.#path} has no tensor ${name}, which config.json implies`);
    }
    if (entry.shape.join() !== shape.join()) {
      throw new ModelError(
        `${this.#path}: ${name} has shape [${entry.shape.join(", ")}], but config.json implies [${shape.join(", ")}]`,
      );
    }
    const [start, end] = entry.data_offsets;
    const bytes = await readBytes(this.#file, this.#path, this.#firstByte + start, end - start);
    return toFloat32(bytes, entry.dtype, `${this.#path}: ${name}`);
  }
}

async function readBytes(
  file: FileHandle,
  path: string,
  position: number,
  length: number,
): Promise<Buffer> {
  const buffer = Buffer.from(new ArrayBuffer(length));
  let filled = 0;
  while (filled < length) {
    const wanted = Math.min(length - filled, READ_BYTES_MAX);
    const { bytesRead } = await file.read(buffer, filled, wanted, position + filled);
    if (bytesRead === 0) throw new ModelError(`${path} ended at byte ${position + filled}`);
    filled += bytesRead;
  }
  return buffer;
}

function parseHeader(json: string, path: string): Map<string, Entry> {
  const header = z.record(z.string(), z.unknown()).safeParse(parseJson(json, `${path} (header)`));
  if (!header.success) throw new ModelError(`${path}: the header is not a JSON object`);
  const entries = new Map<string, Entry>();
  for (const [name, value] of Object.entries(header.data)) {
    if (name === "__metadata__") continue;
    const entry = Entry.safeParse(value);
    if (!entry.success) {
      throw new ModelError(
        `${path}: the header's entry ${name} needs dtype, shape and data_offsets`,
      );
    }
    entries.set(name, entry.data);
  }
  return entries;
}

/** Tensors fill the file without gaps: the format demands it, and it rules out overlaps. */
function checkExtents(entries: ReadonlyMap<string, Entry>, fileBytes: number, path: string): void {
  const inOrder = [...entries].toSorted(
    ([, a], [, b]) =>
      a.data_offsets[0] - b.data_offsets[0] || a.data_offsets[1] - b.data_offsets[1],
  );
  let expectedStart = 0;
  for (const [
    name,
    {
      dtype,
      shape,
      data_offsets: [start, end],
    },
  ] of inOrder) {
    if (start !== expectedStart || end < start || end > fileBytes) {
      throw new ModelError(
        `${path}: ${name} lies at bytes ${start} to ${end}, expected to start at ${expectedStart} and to end by ${fileBytes}; the file is cut off or damaged`,
      );
    }
    const elements = shape.reduce((product, size) => product * size, 1);
    if (isElementType(dtype) && end - start !== elements * BYTES_PER_ELEMENT[dtype]) {
      throw new ModelError(
        `${path}: ${name} has ${end - start} bytes, which is not ${dtype} [${shape.join(", ")}]`,
      );
    }
    expectedStart = end;
  }
  if (expectedStart !== fileBytes) {
    throw new ModelError(`${path}: ${fileBytes - expectedStart} bytes belong to no tensor`);
  }
}

function isElementType(dtype: string): dtype is ElementType {
  return Object.hasOwn(BYTES_PER_ELEMENT, dtype);
}

/** All conversions are exact. The bytes are little-endian, as is every machine Node runs on. */
function toFloat32(bytes: Buffer, dtype: string, name: string): Float32Array {
  if (!isElementType(dtype)) {
    throw new ModelError(`${name} is ${dtype}; convert the checkpoint to F16, BF16 or F32`);
  }
  const { buffer, byteOffset, byteLength } = bytes;
  if (dtype === "F32") return new Float32Array(buffer, byteOffset, byteLength / 4);
  const halves = new Uint16Array(buffer, byteOffset, byteLength / 2);
  const values = new Float32Array(halves.length);
  const bits = new Uint32Array(values.buffer);
  const widen = dtype === "BF16" ? widenBfloat16 : widenFloat16;
  halves.forEach((half, index) => {
    bits[index] = widen(half);
  });
  return values;
}

/** A bfloat16 is the upper half of an f32. */
function widenBfloat16(half: number): number {
  return half << 16;
}

/** The f32 bits of a half-precision number. */
function widenFloat16(half: number): number {
  const sign = (half & 0x8000) << 16;
  const exponent = (half >> 10) & 0x1f;
  const fraction = half & 0x3ff;
  if (exponent === 0x1f) return sign | 0x7f800000 | (fraction << 13);
  if (exponent > 0) return sign | ((exponent + 112) << 23) | (fraction << 13);
  if (fraction === 0) return sign;
  // A subnormal half is a normal f32: shift the fraction up until its leading bit is implied.
  const shift = Math.clz32(fraction) - 21;
  return sign | ((113 - shift) << 23) | (((fraction << shift) & 0x3ff) << 13);
}
