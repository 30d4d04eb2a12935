import { closeSync, fstatSync, openSync, readSync, statSync } from "node:fs";
import { messageOf } from "../message-of.ts";
import { ModelError } from "./model-error.ts";

/** One read of the operating system takes less than 2 GiB. */
const READ_BYTES_MAX = 1 << 30;

/**
 * A file of weights, open for reading. Reads block the thread, as running the model does; they fill
 * buffers of the caller's, so that no file decides how much is allocated.
 */
export class WeightFile {
  readonly path: string;
  readonly byteLength: number;
  readonly modifiedAtMs: number;
  readonly #descriptor: number;

  /** Throws a `ModelError` unless `path` is a file that can be read. */
  constructor(path: string) {
    this.path = path;
    try {
      // Opening a pipe would wait for somebody to write into it.
      if (!statSync(path).isFile()) throw new Error("expected a file");
      this.#descriptor = openSync(path, "r");
    } catch (error) {
      throw new ModelError(
        `Cannot read ${path}: ${messageOf(error)}; a model directory holds config.json and model.safetensors`,
      );
    }
    const { size, mtimeMs } = fstatSync(this.#descriptor);
    this.byteLength = size;
    this.modifiedAtMs = mtimeMs;
  }

  /** Fills `bytes` from `position` on; throws a `ModelError` where the file ends before. */
  read(bytes: Uint8Array, position: number): void {
    let filled = 0;
    while (filled < bytes.byteLength) {
      const wanted = Math.min(bytes.byteLength - filled, READ_BYTES_MAX);
      const count = readSync(this.#descriptor, bytes, filled, wanted, position + filled);
      if (count === 0) throw new ModelError(`${this.path} ended at byte ${position + filled}`);
      filled += count;
    }
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}
