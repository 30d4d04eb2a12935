import { ALIGNMENT_BYTES } from "./segment-runtime.ts";
import type { WasmMemory } from "./wasm-memory.ts";

const PAGE_BYTES = 65_536;

/** Deals a memory out front to back; nothing is given back before all of it is dropped. */
export class OwnMemory {
  readonly memory: WasmMemory;
  #usedBytes = 0;

  constructor(memory: WasmMemory) {
    this.memory = memory;
  }

  /** Reserves zeroed memory; throws a `RangeError` when the address space is used up. */
  allocate(byteLength: number): number {
    const address = this.#usedBytes;
    const end = Math.ceil((address + byteLength) / ALIGNMENT_BYTES) * ALIGNMENT_BYTES;
    const missingPages = Math.ceil((end - this.memory.buffer.byteLength) / PAGE_BYTES);
    if (missingPages > 0) this.memory.grow(missingPages);
    this.#usedBytes = end;
    return address;
  }
}
