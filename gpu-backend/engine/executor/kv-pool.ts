import { assert } from "../../../src/base/assert.ts";
import type { BlockBytes } from "./executor.ts";
import type { WasmMemory } from "./wasm-memory.ts";

/** Where one layer's keys and values lie. */
export interface LayerPool {
  readonly keys: number;
  readonly values: number;
}

/** Copies whole blocks of a paged KV pool out of its memory and back, layer after layer, keys then values. */
export class KvPool implements BlockBytes {
  /** Of one block, in all layers together. */
  readonly blockBytes: number;
  readonly #memory: WasmMemory;
  readonly #pools: readonly LayerPool[];
  readonly #layerBytes: number;

  /** `layerBytes` is what the keys of one block take in one layer, and its values as well. */
  constructor(memory: WasmMemory, pools: readonly LayerPool[], layerBytes: number) {
    this.#memory = memory;
    this.#pools = pools;
    this.#layerBytes = layerBytes;
    this.blockBytes = 2 * pools.length * layerBytes;
  }

  readBlock(block: number, target: Uint8Array): void {
    this.#each(block, target, (stored, part) => part.set(stored));
  }

  writeBlock(block: number, source: Uint8Array): void {
    this.#each(block, source, (stored, part) => stored.set(part));
  }

  #each(
    block: number,
    bytes: Uint8Array,
    copy: (stored: Uint8Array, part: Uint8Array) => void,
  ): void {
    assert(bytes.byteLength === this.blockBytes, `a block has ${this.blockBytes} bytes`);
    let offset = 0;
    for (const { keys, values } of this.#pools) {
      for (const pool of [keys, values]) {
        const address = pool + block * this.#layerBytes;
        const stored = new Uint8Array(this.#memory.buffer, address, this.#layerBytes);
        copy(stored, bytes.subarray(offset, offset + this.#layerBytes));
        offset += this.#layerBytes;
      }
    }
  }
}
