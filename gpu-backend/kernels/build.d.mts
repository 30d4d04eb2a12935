/** The kernels: each is a source file, and a wasm file beside it that is committed. */
export const KERNELS: readonly string[];

/** Compiles a kernel and returns the bytes of the module; throws with the compiler's messages. */
export function compileKernel(name: string): Promise<Uint8Array>;
