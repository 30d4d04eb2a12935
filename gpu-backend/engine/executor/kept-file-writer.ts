import { createHash, type Hash, randomUUID } from "node:crypto";
import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import type { QuantizedStretch } from "./quantize.ts";

/** What a kept file says of one matrix: where it begins, and the SHA-256 of its values and scales. */
export interface KeptMatrix {
  readonly outputs: number;
  readonly inputs: number;
  readonly position: number;
  readonly sha256: string;
}

/** The end of a kept file: this as JSON, its length as a u32, and the mark. */
interface KeptFooter {
  readonly key: string;
  readonly revision: string;
  readonly matrices: readonly KeptMatrix[];
}

/** Stands at the end of every whole file. */
export const KEPT_MARK = "sluice-8";

/**
 * Writes a file of int8 matrices, each as its values and, behind them, its scales. It has another name
 * until it is whole, so that nobody reads half a file, whoever else writes one at the same time.
 */
export class KeptFileWriter {
  readonly #path: string;
  readonly #partPath: string;
  readonly #matrices: KeptMatrix[] = [];
  #descriptor: number | undefined;
  #position = 0;
  #matrixPosition = 0;
  #hash: Hash = createHash("sha256");
  #scales: Float32Array[] = [];

  /** Throws if the folder cannot be written to. */
  constructor(path: string) {
    this.#path = path;
    this.#partPath = `${path}.${randomUUID()}.part`;
    mkdirSync(dirname(path), { recursive: true });
    this.#descriptor = openSync(this.#partPath, "wx", 0o600);
  }

  /** Appends values; scales are kept until the matrix ends. */
  write({ values, scales }: QuantizedStretch): void {
    this.#append(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
    this.#scales.push(scales);
  }

  endMatrix({ outputs, inputs }: { readonly outputs: number; readonly inputs: number }): void {
    for (const { buffer, byteOffset, byteLength } of this.#scales) {
      this.#append(new Uint8Array(buffer, byteOffset, byteLength));
    }
    const sha256 = this.#hash.digest("hex");
    this.#matrices.push({ outputs, inputs, position: this.#matrixPosition, sha256 });
    this.#scales = [];
    this.#hash = createHash("sha256");
    this.#matrixPosition = this.#position;
  }

  /** Writes the end and gives the file its name. */
  finish(key: string, revision: string): void {
    if (this.#descriptor === undefined) return;
    const footer: KeptFooter = { key, revision, matrices: this.#matrices };
    const json = Buffer.from(JSON.stringify(footer));
    const length = Buffer.alloc(4);
    length.writeUInt32LE(json.byteLength);
    this.#append(Buffer.concat([json, length, Buffer.from(KEPT_MARK)]));
    fsyncSync(this.#descriptor);
    closeSync(this.#descriptor);
    this.#descriptor = undefined;
    renameSync(this.#partPath, this.#path);
  }

  /** Takes an unfinished file away. */
  close(): void {
    if (this.#descriptor !== undefined) this.discard();
  }

  /** The same, whatever state the file is in. */
  discard(): void {
    try {
      if (this.#descriptor !== undefined) closeSync(this.#descriptor);
      this.#descriptor = undefined;
      rmSync(this.#partPath, { force: true });
    } catch {
      // It is given up because something is wrong with it.
    }
  }

  #append(bytes: Uint8Array): void {
    if (this.#descriptor === undefined) return;
    this.#hash.update(bytes);
    let written = 0;
    while (written < bytes.byteLength) {
      written += writeSync(this.#descriptor, bytes, written, bytes.byteLength - written);
    }
    this.#position += bytes.byteLength;
  }
}
