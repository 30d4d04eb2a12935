import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  createWasmMemory,
  instantiateWasm,
} from "../../../gpu-backend/engine/executor/wasm-memory.ts";
import { compileKernel, KERNELS } from "../../../gpu-backend/kernels/build.mjs";

const committed = (name: string) =>
  readFileSync(join(import.meta.dirname, `../../../gpu-backend/kernels/${name}.wasm`));

describe.each(KERNELS)("the kernel %s", (name) => {
  test("what is committed is what its source compiles to", async () => {
    const compiled = await compileKernel(name);
    expect(Buffer.from(compiled).equals(committed(name))).toBe(true);
  }, 60_000);

  test("it needs nothing but a memory", () => {
    const imports = { env: { memory: createWasmMemory() } };
    expect(() => instantiateWasm(committed(name), imports)).not.toThrow();
    expect(() => instantiateWasm(committed(name), {})).toThrow("env");
  });
});

test("a source that does not compile is reported with the compiler's words", async () => {
  await expect(compileKernel("no-such-kernel")).rejects.toThrow(/no-such-kernel\.ts/);
});
