/** A memory that grows in place: views of it stay valid, since it is shared. */
export interface WasmMemory {
  readonly buffer: SharedArrayBuffer;
  /** Adds pages of 64 KiB; throws a `RangeError` beyond the maximum. */
  grow(pages: number): number;
}

/** The part of the WebAssembly API that we use. TypeScript knows it only as a part of browsers. */
interface WebAssemblyApi {
  readonly Memory: new (descriptor: {
    readonly initial: number;
    readonly maximum: number;
    readonly shared: true;
  }) => WasmMemory;
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (compiled: object, imports: object) => { readonly exports: unknown };
}

declare global {
  var WebAssembly: WebAssemblyApi;
}

const PAGES_MAX = 65_536;

/** Makes a memory that may grow to all of the 4 GiB that 32-bit addresses reach. */
export function createWasmMemory(): WasmMemory {
  return new WebAssembly.Memory({ initial: 1, maximum: PAGES_MAX, shared: true });
}

/** Compiles a module and instantiates it with `env.memory`; returns its exports. */
export function instantiateWasm(bytes: Uint8Array, memory: WasmMemory): unknown {
  return new WebAssembly.Instance(new WebAssembly.Module(bytes), { env: { memory } }).exports;
}
