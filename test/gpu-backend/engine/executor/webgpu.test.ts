import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { messageOf } from "../../../../gpu-backend/engine/message-of.ts";
import {
  createOnnxExecutor,
  type OnnxExecutor,
} from "../../../../gpu-backend/engine/executor/onnx-executor.ts";
import {
  candidatesFor,
  openRuntime,
} from "../../../../gpu-backend/engine/executor/open-runtime.ts";
import { aBatch, blocksFrom } from "./batches.ts";
import { MODELS } from "./golden.ts";

/** Why there is no adapter here, if so: no onnxruntime-node, or neither a GPU nor software for one. */
async function findReason(): Promise<string | undefined> {
  try {
    const { runtime } = await openRuntime(candidatesFor("webgpu", "f32"));
    await runtime.close();
    return undefined;
  } catch (error) {
    return messageOf(error).slice(0, 300);
  }
}

const reason = await findReason();
const MODEL = `${MODELS}/sluice-tiny-draft`;
const PROMPT = Array.from({ length: 40 }, (_, index) => 300 + ((index * 37) % 1500));

const create = (runtime: "webgpu" | "wasm") =>
  createOnnxExecutor({
    model: MODEL,
    precision: "f32",
    runtime,
    blockTokens: 16,
    blockCount: 16,
    batchTokensMax: 64,
  });

test("int8 is refused on WebGPU, which multiplies floats only", async () => {
  const options = { model: MODEL, blockTokens: 16, blockCount: 16, batchTokensMax: 64 };
  await expect(
    createOnnxExecutor({ ...options, precision: "int8", runtime: "webgpu" }),
  ).rejects.toThrow("take --precision f32");
});

const words = reason === undefined ? "where an adapter is" : `skipped here: ${reason}`;

describe.skipIf(reason !== undefined)(`on WebGPU, ${words}`, () => {
  const executors: OnnxExecutor[] = [];
  beforeAll(async () => {
    executors.push(await create("webgpu"), await create("wasm"));
  }, 120_000);
  afterAll(async () => {
    for (const executor of executors) await executor.close();
  });

  test("logits are those of wasm, within 1e-3", async () => {
    const logits: Float32Array[] = [];
    for (const executor of executors) {
      const batch = aBatch([{ tokens: PROMPT, blockTable: blocksFrom(0, 4), output: "all" }]);
      logits.push((await executor.run(batch)).values.slice());
    }
    const [found, expected] = logits;
    expect(found?.length).toBe(expected?.length);
    const worst = expected?.reduce(
      (soFar, value, index) => Math.max(soFar, Math.abs(value - (found?.[index] ?? Infinity))),
      0,
    );
    expect(worst).toBeLessThan(1e-3);
  }, 120_000);

  test("a request gets the same bits in chunks, and among others, as alone", async () => {
    const [executor] = executors;
    if (executor === undefined) throw new Error("an executor was made");
    const alone = await executor.run(aBatch([{ tokens: PROMPT, blockTable: blocksFrom(0, 4) }]));
    const expected = [...alone.values];
    const blockTable = blocksFrom(4, 4);
    let chunked: number[] = [];
    for (const [from, to] of [
      [0, 1],
      [1, 20],
      [20, 39],
      [39, 40],
    ] as const) {
      const tokens = PROMPT.slice(from, to);
      const other = { sequenceId: "b", tokens: PROMPT.slice(0, 7), blockTable: blocksFrom(8, 1) };
      const rows = [{ sequenceId: "a", tokens, startPosition: from, blockTable }, other];
      const { values, vocabularyTokens } = await executor.run(aBatch(rows));
      chunked = [...values.subarray(0, vocabularyTokens)];
    }
    expect(chunked).toEqual(expected);
  }, 120_000);

  test("its KV has a name of its own, since its sums are rounded otherwise", () => {
    const [webgpu, wasm] = executors.map(({ revision }) => revision);
    expect(webgpu).toBe(`${wasm}/webgpu`);
  });
});
