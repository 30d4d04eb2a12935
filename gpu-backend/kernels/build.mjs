import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { main } from "assemblyscript/asc";

const SOURCE = "paged-attention.ts";
const TARGET = "paged-attention.wasm";

// The kernel works in the heap of ONNX Runtime: a shared memory that it imports, and whose limit,
// the whole address space of 65,536 pages, it must admit.
const OPTIONS = [
  "--runtime=stub",
  "--enable=simd,threads",
  "--importMemory",
  "--sharedMemory",
  "--maximumMemory=65536",
  "-O3",
  "--noAssert",
];

/** Compiles the kernel and returns the bytes of the module; throws with the compiler's messages. */
export async function compileKernel() {
  let kernel;
  let messages = "";
  const { error } = await main([SOURCE, `--outFile=${TARGET}`, ...OPTIONS], {
    readFile: (name) => {
      const path = join(import.meta.dirname, name);
      return existsSync(path) ? readFileSync(path, "utf8") : null;
    },
    writeFile: (_name, contents) => {
      kernel = contents;
    },
    listFiles: () => [],
    stderr: {
      write: (text) => {
        messages += text;
      },
    },
  });
  if (error) throw new Error(`${SOURCE} does not compile\n${messages}`);
  return kernel;
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const kernel = await compileKernel();
  writeFileSync(join(import.meta.dirname, TARGET), kernel);
  console.log(`${TARGET}: ${kernel.byteLength} bytes`);
}
