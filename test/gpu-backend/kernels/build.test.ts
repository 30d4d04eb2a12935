import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  createWasmMemory,
  instantiateWasm,
} from "../../../gpu-backend/engine/executor/wasm-memory.ts";
import { compileKernel } from "../../../gpu-backend/kernels/build.mjs";

const COMMITTED = join(import.meta.dirname, "../../../gpu-backend/kernels/paged-attention.wasm");

test("the committed kernel is what its source compiles to", async () => {
  const compiled = await compileKernel();
  expect(Buffer.from(compiled).equals(readFileSync(COMMITTED))).toBe(true);
}, 60_000);

test("the kernel needs nothing but a memory", () => {
  const imports = { env: { memory: createWasmMemory() } };
  const { exports } = instantiateWasm(readFileSync(COMMITTED), imports).instance;
  expect(exports).toMatchObject({ attend: expect.any(Function) });
});
