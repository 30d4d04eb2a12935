import { createHash } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "../message-of.ts";
import type { LoadedModel, ModelFiles } from "../model/load-model.ts";
import type { Matrix } from "../model/matrix.ts";
import { KeptFileReader } from "./kept-file-reader.ts";
import { KeptFileWriter } from "./kept-file-writer.ts";
import { type QuantizedStretch, type Quantizer, quantizeStretches } from "./quantize.ts";

/** What int8 weights are kept in, beside the checkpoint that they were made of. */
const KEPT_FOLDER = ".sluice";
const KEPT_FILE = "int8-weights.bin";
/** Changes when weights would come out otherwise, or the file's format does. */
const KEPT_VERSION = 1;

/**
 * The int8 weights of a checkpoint in a file beside it, so that only the first start quantizes.
 *
 * The file is known by the checkpoint's configuration, headers, sizes and times, and every matrix in it
 * by a checksum; what does not fit is made anew from the checkpoint. A folder that cannot be written
 * to costs the file and nothing else.
 */
export class KeptWeights {
  /** Sentences for the operator. */
  readonly notes: string[] = [];
  readonly #model: LoadedModel;
  readonly #path: string;
  readonly #key: string;
  readonly #reader: KeptFileReader | undefined;
  #writer: KeptFileWriter | undefined;
  #matrixCount = 0;
  #hasBroken = false;

  constructor(model: LoadedModel, { directory, identity }: ModelFiles) {
    this.#model = model;
    this.#path = join(directory, KEPT_FOLDER, KEPT_FILE);
    this.#key = createHash("sha256").update(`${KEPT_VERSION} ${identity}`).digest("hex");
    this.#reader = KeptFileReader.open(this.#path, this.#key);
    if (this.#reader === undefined) this.#openWriter();
  }

  /** Takes each matrix from the file if there is one, or quantizes it, and keeps what it made. */
  readonly quantize: Quantizer = (matrix, step) => this.#stretches(matrix, step);

  /** Ends the file once all matrices were taken. Returns the model's revision. */
  finish(): string {
    if (this.#reader !== undefined && !this.#hasBroken) return this.#reader.revision;
    const revision = this.#model.revision();
    // The next start makes a new one.
    if (this.#hasBroken) rmSync(this.#path, { force: true });
    this.#attempt(() => this.#writer?.finish(this.#key, revision));
    return revision;
  }

  /** Closes files; what was not finished is taken away. */
  close(): void {
    this.#reader?.close();
    this.#attempt(() => this.#writer?.close());
  }

  *#stretches(matrix: Matrix, step: number): Generator<QuantizedStretch> {
    const index = this.#matrixCount;
    this.#matrixCount += 1;
    if (this.#reader !== undefined) {
      const isWhole = yield* this.#reader.stretches(index, matrix, step);
      if (isWhole) return;
      this.#hasBroken = true;
      this.notes.push(`${this.#path} is damaged; its weights were made anew in part`);
    }
    for (const stretch of quantizeStretches(matrix, step)) {
      this.#attempt(() => this.#writer?.write(stretch));
      yield stretch;
    }
    this.#attempt(() => this.#writer?.endMatrix(matrix));
  }

  #openWriter(): void {
    this.#attempt(() => {
      this.#writer = new KeptFileWriter(this.#path);
    });
  }

  /** Gives the file up at the first thing that goes wrong with it. */
  #attempt(write: () => void): void {
    try {
      write();
    } catch (error) {
      this.notes.push(`Int8 weights are not kept for the next start: ${messageOf(error)}`);
      const writer = this.#writer;
      this.#writer = undefined;
      writer?.discard();
    }
  }
}
