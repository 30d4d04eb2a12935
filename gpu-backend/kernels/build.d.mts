/** Compiles the kernel and returns the bytes of the module; throws with the compiler's messages. */
export function compileKernel(): Promise<Uint8Array>;
