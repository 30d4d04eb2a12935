/**
 * A memory that grows. If it is shared in the sense of WebAssembly threads, it grows in place, and views
 * of it stay valid; else its buffer is another one afterwards.
 */
export interface WasmMemory {
  readonly buffer: SharedArrayBuffer | ArrayBuffer;
  /** Adds pages of 64 KiB; throws a `RangeError` beyond the maximum. */
  grow(pages: number): number;
}

/** The part of the WebAssembly API that we use. TypeScript knows it only as a part of browsers. */
interface WebAssemblyApi {
  readonly Memory: new (descriptor: {
    readonly initial: number;
    readonly maximum: number;
    readonly shared: boolean;
  }) => WasmMemory;
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (compiled: object, imports: object) => { readonly exports: unknown };
}

declare global {
  var WebAssembly: WebAssemblyApi;
}

/** Pages of 64 KiB in the 4 GiB that 32-bit addresses reach. */
const PAGES_MAX = 65_536;

/** Makes a memory that may grow to the whole of its address space. */
export function createWasmMemory({ shared } = { shared: true }): WasmMemory {
  return new WebAssembly.Memory({ initial: 1, maximum: PAGES_MAX, shared });
}

/** Whether a memory is shared in the sense of WebAssembly threads. */
export function isShared(memory: WasmMemory): boolean {
  return memory.buffer instanceof SharedArrayBuffer;
}

/** A compiled module and its instance. */
export interface WasmInstance {
  readonly compiled: object;
  readonly instance: { readonly exports: unknown };
}

/** Compiles a module and instantiates it. */
export function instantiateWasm(bytes: Uint8Array, imports: object): WasmInstance {
  const compiled = new WebAssembly.Module(bytes);
  return { compiled, instance: new WebAssembly.Instance(compiled, imports) };
}

/** Finds the memory among a module's imports, two levels deep as they are. */
export function memoryAmong(imports: object): WasmMemory | undefined {
  return Object.values(imports)
    .flatMap((namespace: object) => Object.values(namespace))
    .find((value: unknown) => value instanceof WebAssembly.Memory);
}
