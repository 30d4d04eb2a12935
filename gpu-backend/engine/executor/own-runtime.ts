import { OwnMemory } from "./own-memory.ts";
import type { Segment, SegmentRuntime } from "./segment-runtime.ts";
import { createWasmMemory, type WasmMemory } from "./wasm-memory.ts";

/**
 * A memory for our own kernels, with no ONNX Runtime behind it: all that a model in int8 needs. Nobody
 * shares it with threads, and in such a memory attention over much KV is a third faster (measured in
 * Node 20).
 */
export class OwnRuntime implements SegmentRuntime {
  readonly multipliesIntegers = false;
  readonly #own = new OwnMemory(createWasmMemory({ shared: false }));

  get memory(): WasmMemory {
    return this.#own.memory;
  }

  allocate(byteLength: number): number {
    return this.#own.allocate(byteLength);
  }

  load(): Promise<Segment> {
    return Promise.reject(new Error("Nothing here runs graphs; a model in f32 needs ONNX Runtime"));
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
