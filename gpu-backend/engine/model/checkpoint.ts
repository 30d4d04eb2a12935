import { createHash, type Hash } from "node:crypto";
import { join } from "node:path";
import * as z from "zod";
import { BYTES_PER_ELEMENT, widen } from "./element-types.ts";
import { type Matrix, readWhole } from "./matrix.ts";
import { ModelError } from "./model-error.ts";
import { parseJson } from "./parse-json.ts";
import { isThere, readModelText } from "./read-text.ts";
import { SafetensorsFile, type TensorPlace } from "./safetensors.ts";

const WEIGHTS_FILE = "model.safetensors";
const INDEX_FILE = `${WEIGHTS_FILE}.index.json`;
const INDEX_BYTES_MAX = 16 << 20;
const SHARDS_MAX = 1000;
/** Rows are read through one buffer, which grows to what the longest needs. */
const BUFFER_BYTES_MIN = 1 << 20;

/** A file's own name, in the folder of its index: an index is from a stranger as well. */
const ShardName = z.string().regex(/^[\w.-]{1,200}\.safetensors$/);
const Index = z.looseObject({ weight_map: z.record(z.string(), z.unknown()) });

/**
 * The weights of a model's folder, in one file or in several that an index names. Tensors are found by
 * their headers, and read, stretch by stretch, when they are wanted.
 */
export class Checkpoint {
  readonly #shards: readonly SafetensorsFile[];
  readonly #shardOf: ReadonlyMap<string, SafetensorsFile>;
  readonly #where: string;
  readonly #digests = new Map<string, TensorDigest>();
  #bytes = new Uint8Array(0);
  #values = new Float32Array(0);

  /** Opens the files and reads their headers. Throws a `ModelError`, with nothing left open. */
  constructor(directory: string) {
    const indexPath = join(directory, INDEX_FILE);
    const single = join(directory, WEIGHTS_FILE);
    const opened: SafetensorsFile[] = [];
    try {
      if (isThere(single) || !isThere(indexPath)) {
        const file = new SafetensorsFile(single);
        opened.push(file);
        this.#shardOf = new Map([...file.names].map((name) => [name, file]));
        this.#where = single;
      } else {
        this.#shardOf = openShards(directory, indexPath, opened);
        this.#where = indexPath;
      }
      this.#shards = opened;
    } catch (error) {
      for (const { file } of opened) file.close();
      throw error;
    }
  }

  get names(): Iterable<string> {
    return this.#shardOf.keys();
  }

  /** What a message names: the file, or the index of the files. */
  get where(): string {
    return this.#where;
  }

  /** What tells these files from others without reading all of them: headers, sizes and times. */
  get identity(): string {
    const hash = createHash("sha256");
    for (const { file, header } of this.#shards) {
      hash.update(`${file.byteLength} ${file.modifiedAtMs} ${header.byteLength}\0`).update(header);
    }
    return hash.digest("hex");
  }

  /** Finds a tensor by its header alone; see `SafetensorsFile.find`. */
  find(name: string, shape: readonly number[]): TensorPlace {
    const shard = this.#shardOf.get(name);
    if (shard === undefined) {
      throw new ModelError(`${this.#where} has no tensor ${name}, which config.json implies`);
    }
    return shard.find(name, shape);
  }

  /** A whole vector. */
  vector(place: TensorPlace): Float32Array {
    const [size = 1] = place.shape;
    return readWhole(this.matrix(place, { first: 0, count: 1, inputs: size }));
  }

  /**
   * Some neighbouring rows of a tensor as a matrix. Throws, when these are read, a `ModelError` for a
   * weight that is no number.
   */
  matrix(
    place: TensorPlace,
    {
      first,
      count,
      inputs,
    }: { readonly first: number; readonly count: number; readonly inputs: number },
  ): Matrix {
    const rows = (from: number, rowCount: number) =>
      this.#rows(place, first + from, rowCount, inputs);
    return { outputs: count, inputs, isBfloat16: place.type === "BF16", rows };
  }

  /**
   * SHA-256 over all tensors that were found, hex. What was not read yet is read for it; what was, need
   * not be read again.
   */
  digest(): string {
    const hash = createHash("sha256");
    for (const [name, digest] of [...this.#digests].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      this.#finish(digest);
      hash.update(`${name}\0${digest.place.type}\0${digest.place.shape.join()}\0`);
      hash.update(digest.hash.copy().digest());
    }
    return hash.digest("hex");
  }

  /** Takes a tensor into the digest. */
  include(place: TensorPlace): void {
    this.#digests.set(place.name, { place, hash: createHash("sha256"), hashedBytes: 0 });
  }

  close(): void {
    for (const { file } of this.#shards) file.close();
    this.#bytes = new Uint8Array(0);
    this.#values = new Float32Array(0);
  }

  #rows(place: TensorPlace, first: number, rowCount: number, inputs: number): Float32Array {
    const count = rowCount * inputs;
    const rowBytes = inputs * BYTES_PER_ELEMENT[place.type];
    const bytes = this.#read(place, first * rowBytes, rowCount * rowBytes);
    if (this.#values.length < count) this.#values = new Float32Array(count);
    const values = this.#values.subarray(0, count);
    const broken = widen(bytes, place.type, values);
    if (broken === -1) return values;
    const row = first + Math.floor(broken / inputs);
    throw new ModelError(
      `${place.file.path}: ${place.name} is not a number at row ${row}, column ${broken % inputs}; the checkpoint is damaged`,
    );
  }

  #read(place: TensorPlace, start: number, byteLength: number): Uint8Array {
    if (this.#bytes.byteLength < byteLength) {
      this.#bytes = new Uint8Array(Math.max(byteLength, BUFFER_BYTES_MIN));
    }
    const bytes = this.#bytes.subarray(0, byteLength);
    place.file.read(bytes, place.position + start);
    const digest = this.#digests.get(place.name);
    // Most tensors are read front to back, once; what is read again was hashed before.
    if (digest !== undefined && digest.hashedBytes === start) {
      digest.hash.update(bytes);
      digest.hashedBytes += byteLength;
    }
    return bytes;
  }

  #finish(digest: TensorDigest): void {
    const { place } = digest;
    while (digest.hashedBytes < place.byteLength) {
      const rest = place.byteLength - digest.hashedBytes;
      this.#read(place, digest.hashedBytes, Math.min(rest, BUFFER_BYTES_MIN));
    }
  }
}

interface TensorDigest {
  readonly place: TensorPlace;
  readonly hash: Hash;
  hashedBytes: number;
}

function openShards(
  directory: string,
  indexPath: string,
  opened: SafetensorsFile[],
): Map<string, SafetensorsFile> {
  const parsed = Index.safeParse(parseJson(readModelText(indexPath, INDEX_BYTES_MAX), indexPath));
  if (!parsed.success) throw new ModelError(`${indexPath} has no weight_map of tensors to files`);
  const shards = new Map<string, SafetensorsFile>();
  const shardOf = new Map<string, SafetensorsFile>();
  for (const [name, value] of Object.entries(parsed.data.weight_map)) {
    const fileName = ShardName.safeParse(value);
    if (!fileName.success) {
      const found = JSON.stringify(value).slice(0, 100);
      throw new ModelError(
        `${indexPath}: ${name} is in ${found}, expected the name of a .safetensors file beside the index`,
      );
    }
    let shard = shards.get(fileName.data);
    if (shard === undefined) {
      if (shards.size === SHARDS_MAX) {
        throw new ModelError(`${indexPath} names more than ${SHARDS_MAX} files`);
      }
      shard = new SafetensorsFile(join(directory, fileName.data));
      shards.set(fileName.data, shard);
      opened.push(shard);
    }
    if (!shard.has(name)) {
      throw new ModelError(`${indexPath}: ${name} is not in ${fileName.data}, where it should be`);
    }
    shardOf.set(name, shard);
  }
  for (const shard of opened) {
    for (const name of shard.names) if (!shardOf.has(name)) shardOf.set(name, shard);
  }
  return shardOf;
}
