import { createHash } from "node:crypto";
import * as z from "zod";
import { stretchLengthOf } from "../model/matrix.ts";
import { WeightFile } from "../model/weight-file.ts";
import { KEPT_MARK, type KeptMatrix } from "./kept-file-writer.ts";
import type { QuantizedStretch } from "./quantize.ts";

const Footer = z.object({
  key: z.string(),
  revision: z.string().regex(/^[0-9a-f]{64}$/),
  matrices: z.array(
    z.object({
      outputs: z.int().min(1),
      inputs: z.int().min(1),
      position: z.int().min(0),
      sha256: z.string(),
    }),
  ),
});

const LENGTH_BYTES = 4;
const FOOTER_BYTES_MAX = 4 << 20;

/** Reads a file of int8 matrices that `KeptFileWriter` wrote. */
export class KeptFileReader {
  /** Of the model that the matrices were made of. */
  readonly revision: string;
  readonly #file: WeightFile;
  readonly #matrices: readonly KeptMatrix[];

  private constructor(file: WeightFile, footer: z.infer<typeof Footer>) {
    this.#file = file;
    this.revision = footer.revision;
    this.#matrices = footer.matrices;
  }

  /** Opens a whole file of this key; undefined if there is none. */
  static open(path: string, key: string): KeptFileReader | undefined {
    let file: WeightFile;
    try {
      file = new WeightFile(path);
    } catch {
      return undefined;
    }
    const footer = readFooter(file);
    if (footer?.key === key) return new KeptFileReader(file, footer);
    file.close();
    return undefined;
  }

  close(): void {
    this.#file.close();
  }

  /**
   * Yields a matrix, stretch by stretch, and returns whether all of it is what was written. If not, what
   * was yielded is to be forgotten.
   */
  *stretches(
    index: number,
    { outputs, inputs }: { readonly outputs: number; readonly inputs: number },
    step: number,
  ): Generator<QuantizedStretch, boolean> {
    const matrix = this.#matrices[index];
    if (matrix?.outputs !== outputs || matrix.inputs !== inputs) return false;
    const scales = new Float32Array(outputs);
    const scaleBytes = new Uint8Array(scales.buffer);
    if (!fill(this.#file, scaleBytes, matrix.position + outputs * inputs)) return false;
    const hash = createHash("sha256");
    const length = stretchLengthOf(inputs, step);
    for (let first = 0; first < outputs; first += length) {
      const count = Math.min(length, outputs - first);
      const values = new Int8Array(count * inputs);
      const bytes = new Uint8Array(values.buffer);
      if (!fill(this.#file, bytes, matrix.position + first * inputs)) return false;
      hash.update(bytes);
      yield {
        first,
        outputs: count,
        inputs,
        values,
        scales: scales.subarray(first, first + count),
      };
    }
    return hash.update(scaleBytes).digest("hex") === matrix.sha256;
  }
}

function readFooter(file: WeightFile): z.infer<typeof Footer> | undefined {
  const size = file.byteLength;
  const ending = Buffer.alloc(LENGTH_BYTES + KEPT_MARK.length);
  if (size < ending.length || !fill(file, ending, size - ending.length)) return undefined;
  if (ending.toString("latin1", LENGTH_BYTES) !== KEPT_MARK) return undefined;
  const length = ending.readUInt32LE();
  if (length > Math.min(FOOTER_BYTES_MAX, size - ending.length)) return undefined;
  const json = Buffer.alloc(length);
  if (!fill(file, json, size - ending.length - length)) return undefined;
  try {
    return Footer.parse(JSON.parse(json.toString("utf8")));
  } catch {
    return undefined;
  }
}

/** Whether there were enough bytes; a file that cannot be read has none. */
function fill(file: WeightFile, bytes: Uint8Array, position: number): boolean {
  try {
    file.read(bytes, position);
    return true;
  } catch {
    return false;
  }
}
