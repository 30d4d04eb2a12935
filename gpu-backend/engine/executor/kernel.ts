import { readFileSync } from "node:fs";
import { assert } from "../../../src/base/assert.ts";
import { instantiateWasm, type WasmMemory } from "./wasm-memory.ts";

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
  const bytes = readFileSync(new URL(`${name}.wasm`, KERNELS));
  const { exports } = instantiateWasm(bytes, { env: { memory } }).instance;
  const fits = (kernel: unknown): kernel is Kernel =>
    typeof kernel === "object" &&
    kernel !== null &&
    functions.every((each) => typeof Reflect.get(kernel, each) === "function");
  assert(fits(exports), `${name}.wasm fits its interface; run npm run build:kernel`);
  return exports;
}
