import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { main } from "assemblyscript/asc";

/** The kernels: each is a source file, and a wasm file beside it that is committed. */
export const KERNELS = [
  "paged-attention",
  "byte-attention",
  "int8-product",
  "row-operations",
  "row-variants",
  "sampling",
];

// The kernels work in the heap of ONNX Runtime: a shared memory that they import, and whose limit,
// the whole address space of 65,536 pages, they must admit.
const OPTIONS = [
  "--runtime=stub",
  "--enable=simd,threads",
  "--importMemory",
  "--sharedMemory",
  "--maximumMemory=65536",
  "-O3",
  "--noAssert",
];

/** Compiles a kernel and returns the bytes of the module; throws with the compiler's messages. */
export async function compileKernel(name) {
  let compiled;
  let messages = "";
  const { error } = await main([`${name}.ts`, `--outFile=${name}.wasm`, ...OPTIONS], {
    readFile: (path) => {
      const file = join(import.meta.dirname, path);
      return existsSync(file) ? readFileSync(file, "utf8") : null;
    },
    writeFile: (_path, contents) => {
      compiled = contents;
    },
    listFiles: () => [],
    stderr: {
      write: (text) => {
        messages += text;
      },
    },
  });
  if (error) throw new Error(`${name}.ts does not compile\n${messages}`);
  return compiled;
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  for (const name of KERNELS) {
    const compiled = await compileKernel(name);
    writeFileSync(join(import.meta.dirname, `${name}.wasm`), compiled);
    console.log(`${name}.wasm: ${compiled.byteLength} bytes`);
  }
}
