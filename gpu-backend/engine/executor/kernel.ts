import { readFileSync } from "node:fs";
import { assert } from "../../../src/base/assert.ts";
import { instantiateWasm, isShared, type WasmMemory } from "./wasm-memory.ts";

const KERNELS = new URL("../../kernels/", import.meta.url);

/**
 * Instantiates a compiled kernel of `gpu-backend/kernels` that works in `memory`. `functions` names
 * what the kernel's interface has; every argument and result of theirs is a number.
 */
export function instantiateKernel<Kernel extends object>(
  name: string,
  memory: WasmMemory,
  functions: readonly (keyof Kernel & string)[],
): Kernel {
  const compiled = readFileSync(new URL(`${name}.wasm`, KERNELS));
  const bytes = isShared(memory) ? compiled : importUnshared(compiled);
  const { exports } = instantiateWasm(bytes, { env: { memory } }).instance;
  const fits = (kernel: unknown): kernel is Kernel =>
    typeof kernel === "object" &&
    kernel !== null &&
    functions.every((each) => typeof Reflect.get(kernel, each) === "function");
  assert(fits(exports), `${name}.wasm fits its interface; run npm run build:kernel`);
  return exports;
}

/** How the memory among a kernel's imports begins: the lengths of both names, and 2 for its kind. */
const MEMORY_IMPORT = new TextEncoder().encode("\x03env\x06memory\x02");
const SHARED_LIMITS = 3;
const UNSHARED_LIMITS = 1;

/**
 * The same kernel for a memory that is not shared: a module must say which it imports, and nothing
 * else in a kernel depends on it, since none has atomic instructions.
 */
function importUnshared(compiled: Uint8Array): Uint8Array {
  const bytes = Buffer.from(compiled);
  const flags = bytes.indexOf(MEMORY_IMPORT) + MEMORY_IMPORT.length;
  assert(bytes[flags] === SHARED_LIMITS, "a kernel imports a shared memory with a maximum");
  bytes[flags] = UNSHARED_LIMITS;
  return bytes;
}
