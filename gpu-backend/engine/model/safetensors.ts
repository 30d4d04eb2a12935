import * as z from "zod";
import { BYTES_PER_ELEMENT, type ElementType, isElementType } from "./element-types.ts";
import { ModelError } from "./model-error.ts";
import { parseJson } from "./parse-json.ts";
import { WeightFile } from "./weight-file.ts";

const LENGTH_BYTES = 8;
/** The format allows 100 MB; a hundred thousand tensors take a tenth of this. */
const HEADER_BYTES_MAX = 16 << 20;
const TENSORS_MAX = 100_000;
const DIMENSIONS_MAX = 8;

const Entry = z.object({
  dtype: z.string().max(16),
  shape: z.array(z.int().min(0)).max(DIMENSIONS_MAX),
  data_offsets: z.tuple([z.int().min(0), z.int().min(0)]),
});
type Entry = z.infer<typeof Entry>;

/** Where a tensor lies. */
export interface TensorPlace {
  readonly file: WeightFile;
  readonly name: string;
  readonly type: ElementType;
  readonly shape: readonly number[];
  /** Position of its first byte in the file. */
  readonly position: number;
  readonly byteLength: number;
}

/**
 * An open safetensors file, whose header is read and checked.
 *
 * The header comes from a stranger, so nothing in it is believed: every tensor must lie inside the
 * file, have exactly the bytes of its shape, and overlap no other.
 */
export class SafetensorsFile {
  readonly file: WeightFile;
  /** The header's bytes as they are, which say a lot about what file this is. */
  readonly header: Uint8Array;
  readonly #entries: ReadonlyMap<string, Entry>;
  readonly #firstByte: number;

  /** Opens a file and reads its header. Throws a `ModelError`, with nothing left open. */
  constructor(path: string) {
    this.file = new WeightFile(path);
    try {
      this.header = readHeader(this.file);
      this.#firstByte = LENGTH_BYTES + this.header.byteLength;
      this.#entries = parseHeader(this.header, path);
      checkExtents(this.#entries, this.file.byteLength - this.#firstByte, path);
    } catch (error) {
      this.file.close();
      throw error;
    }
  }

  get names(): Iterable<string> {
    return this.#entries.keys();
  }

  has(name: string): boolean {
    return this.#entries.has(name);
  }

  /** Finds a tensor. Throws a `ModelError` if it is absent, or of another shape or a type that is not read. */
  find(name: string, shape: readonly number[]): TensorPlace {
    const { path } = this.file;
    const entry = this.#entries.get(name);
    if (entry === undefined) {
      throw new ModelError(`${path} has no tensor ${name}, which config.json implies`);
    }
    if (entry.shape.join() !== shape.join()) {
      throw new ModelError(
        `${path}: ${name} has shape [${entry.shape.join(", ")}], but config.json implies [${shape.join(", ")}]`,
      );
    }
    const { dtype: type } = entry;
    if (!isElementType(type)) {
      throw new ModelError(
        `${path}: ${name} is ${type}; convert the checkpoint to F16, BF16 or F32`,
      );
    }
    const [start, end] = entry.data_offsets;
    const position = this.#firstByte + start;
    return { file: this.file, name, type, shape, position, byteLength: end - start };
  }
}

function readHeader(file: WeightFile): Uint8Array {
  const { path, byteLength } = file;
  if (byteLength < LENGTH_BYTES) {
    throw new ModelError(`${path} has ${byteLength} bytes, too few for a safetensors file`);
  }
  const length = Buffer.alloc(LENGTH_BYTES);
  file.read(length, 0);
  const claimed = length.readBigUInt64LE();
  const headerBytesMax = Math.min(HEADER_BYTES_MAX, byteLength - LENGTH_BYTES);
  if (claimed > BigInt(headerBytesMax)) {
    throw new ModelError(
      `${path}: the header claims ${claimed} bytes, but at most ${headerBytesMax} are possible; the file is cut off or no safetensors file`,
    );
  }
  const header = Buffer.alloc(Number(claimed));
  file.read(header, LENGTH_BYTES);
  return header;
}

function parseHeader(bytes: Uint8Array, path: string): Map<string, Entry> {
  const json = new TextDecoder().decode(bytes);
  const header = z.record(z.string(), z.unknown()).safeParse(parseJson(json, `${path} (header)`));
  if (!header.success) throw new ModelError(`${path}: the header is not a JSON object`);
  const named = Object.entries(header.data);
  if (named.length > TENSORS_MAX) {
    throw new ModelError(`${path} has ${named.length} tensors, more than ${TENSORS_MAX}`);
  }
  const entries = new Map<string, Entry>();
  for (const [name, value] of named) {
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
