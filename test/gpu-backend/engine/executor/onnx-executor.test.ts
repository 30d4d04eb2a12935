import { join } from "node:path";
import { Worker } from "node:worker_threads";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  createOnnxExecutor,
  type OnnxExecutor,
  type OnnxExecutorOptions,
} from "../../../../gpu-backend/engine/executor/onnx-executor.ts";
import { ModelError } from "../../../../gpu-backend/engine/model/model-error.ts";
import { seededRandom } from "../../../../src/base/random.ts";
import { aBatch, blocksFrom } from "./batches.ts";
import { naiveHidden, naiveLogits } from "./naive-llama.ts";
import { aConfig, aModel } from "./random-model.ts";

const DRAFT = join(import.meta.dirname, "../../../../gpu-backend/models/sluice-tiny-draft");

const OPTIONS = { precision: "f32", blockTokens: 16, blockCount: 16, batchTokensMax: 64 } as const;

const create = (changes: Partial<OnnxExecutorOptions> = {}) =>
  createOnnxExecutor({ model: aModel(1), ...OPTIONS, ...changes });

const shapesFrom = (sizeMin: number) =>
  fc.record({
    hiddenSize: fc.integer({ min: sizeMin, max: 48 }),
    layerCount: fc.integer({ min: 1, max: 3 }),
    kvHeadCount: fc.integer({ min: 1, max: 2 }),
    group: fc.integer({ min: 1, max: 3 }),
    headDimensions: fc.constantFrom(16, 32),
    mlpSize: fc.integer({ min: sizeMin, max: 60 }),
    vocabularyTokens: fc.integer({ min: 2, max: 70 }),
    ropeTheta: fc.constantFrom(100, 10_000, 500_000),
    tiedEmbeddings: fc.boolean(),
  });

/** The mean deviation, as a share of the mean value. */
function errorOf(values: Float32Array, expected: readonly number[]): number {
  expect(values).toHaveLength(expected.length);
  const errors = expected.map((value, index) => value - (values[index] ?? Infinity));
  return sumOfSizes(errors) / sumOfSizes(expected);
}

const sumOfSizes = (values: readonly number[]) =>
  values.reduce((sum, value) => sum + Math.abs(value), 0);

describe("a model of random weights", () => {
  // Mean errors relative to the mean logit; 250 models had at most 1.1e-6 in f32 and 0.05 in int8.
  // A wrong buffer or weight is off by about 1. Very small models are noise in int8.
  test.each([
    { precision: "f32", sizeMin: 3, errorMax: 2e-5 },
    { precision: "int8", sizeMin: 16, errorMax: 0.15 },
  ] as const)(
    "any shape of Llama computes in $precision the logits and hidden states of its definition",
    async ({ precision, sizeMin, errorMax }) => {
      await fc.assert(
        fc.asyncProperty(shapesFrom(sizeMin), fc.integer(), async ({ group, ...shape }, seed) => {
          const config = aConfig({ ...shape, headCount: shape.kvHeadCount * group });
          const model = aModel(seed, config);
          const random = seededRandom(seed);
          const tokens = Array.from({ length: 21 }, () => {
            return Math.floor(random() * shape.vocabularyTokens);
          });
          const executor = await create({ model, precision });
          // Two rows of one step, the one with hidden states first: neither takes the other's place.
          const both = await executor.run(
            aBatch([
              { sequenceId: "hidden", tokens, output: "hidden", blockTable: blocksFrom(4, 2) },
              { sequenceId: "logits", tokens, output: "all" },
            ]),
          );
          expect(both.rowCount).toBe(tokens.length);
          expect(errorOf(both.values, naiveLogits(model, tokens).flat())).toBeLessThan(errorMax);
          expect(errorOf(both.hidden, naiveHidden(model, tokens).flat())).toBeLessThan(errorMax);
          await executor.close();
        }),
        { numRuns: 12 },
      );
    },
    60_000,
  );
});

describe("an executor", () => {
  let executor: OnnxExecutor;
  beforeAll(async () => {
    executor = await create();
  });
  afterAll(() => executor.close());

  test("says what it runs", () => {
    expect(executor).toMatchObject({
      vocabularyTokens: 61,
      contextTokens: 256,
      blockTokens: 16,
      blockCount: 16,
      batchTokensMax: 64,
      precision: "f32",
      revision: "random-1/f32",
      eosTokenIds: [2],
      runtime: "onnxruntime-web 1.30.0 (wasm, direct)",
      notes: [],
    });
    // Keys and values of 2 heads of 16, in 2 layers, for 256 tokens.
    expect(executor.memory.kvPoolBytes).toBe(2 * 2 * 16 * 4 * 2 * 256);
    const parameterBytes = aModel(1).parameterCount * 4;
    expect(executor.memory.weightBytes).toBeGreaterThan(parameterBytes);
    expect(executor.memory.weightBytes).toBeLessThan(parameterBytes * 1.2);
  });

  test("in int8 it needs no ONNX Runtime, and its KV is bytes unless asked otherwise", async () => {
    const int8 = await create({ precision: "int8" });
    expect(int8).toMatchObject({
      runtime: "own kernels (wasm)",
      revision: "random-1/int8/kv-int8",
    });
    // A head of 16 has a scale beside its bytes.
    expect(int8.memory.kvPoolBytes).toBe(2 * 2 * (16 + 4) * 2 * 256);
    const floats = await create({ precision: "int8", kvPrecision: "f32" });
    expect(floats.revision, "other KV has another name").toBe("random-1/int8");
    expect(floats.memory.kvPoolBytes).toBe(executor.memory.kvPoolBytes);
    await int8.close();
    await floats.close();
  });

  test("rows that ask for no logits get none, and the others theirs in order", async () => {
    const all = await executor.run(aBatch([{ tokens: [1, 2, 3], output: "all" }]));
    const expected = [...all.values];
    const mixed = await executor.run(
      aBatch([
        { sequenceId: "a", tokens: [1, 2, 3], output: "none" },
        { sequenceId: "b", tokens: [1, 2, 3], output: "last", blockTable: blocksFrom(1, 1) },
        { sequenceId: "c", tokens: [1, 2], output: "all", blockTable: blocksFrom(2, 1) },
      ]),
    );
    expect(mixed.rowCount).toBe(3);
    expect([...mixed.values]).toEqual([...expected.slice(2 * 61), ...expected.slice(0, 2 * 61)]);
  });

  test("a step without logits yields no rows", async () => {
    const { rowCount, values, hidden } = await executor.run(
      aBatch([{ tokens: [1, 2], output: "none" }]),
    );
    expect([rowCount, values.length, hidden.length]).toEqual([0, 0, 0]);
  });

  test("a batch beyond the limits is refused, and the next one runs", async () => {
    const tooMany = aBatch([{ tokens: Array.from({ length: 65 }, () => 1) }]);
    await expect(executor.run(tooMany)).rejects.toThrow("a batch has at most 64 tokens, not 65");
    await expect(executor.run(aBatch([{ tokens: [1] }]))).resolves.toMatchObject({ rowCount: 1 });
  });

  test("two steps at a time are a bug", async () => {
    const first = executor.run(aBatch([{ tokens: [1] }]));
    await expect(executor.run(aBatch([{ tokens: [1] }]))).rejects.toThrow("one step at a time");
    await expect(first).resolves.toMatchObject({ rowCount: 1 });
  });

  test("a closed executor runs no more, and may be closed again", async () => {
    const closed = await create();
    await closed.close();
    await expect(closed.close()).resolves.toBeUndefined();
    await expect(closed.run(aBatch([{ tokens: [1] }]))).rejects.toThrow("the executor is closed");
  });

  test("two executors in one thread do not share a pool", async () => {
    const other = await create({ model: aModel(2) });
    const batch = aBatch([{ tokens: [5, 6, 7] }]);
    const before = [...(await executor.run(batch)).values];
    await other.run(aBatch([{ tokens: [9, 9, 9] }]));
    const next = aBatch([{ tokens: [8], startPosition: 3 }]);
    const continued = [...(await executor.run(next)).values];
    await other.close();
    await executor.run(batch);
    expect([...(await executor.run(next)).values]).toEqual(continued);
    expect([...(await executor.run(batch)).values]).toEqual(before);
  });
});

describe("createOnnxExecutor", () => {
  test("a model and a pool that no heap holds are refused with what to do", async () => {
    const creation = create({ blockCount: 2_000_000 });
    await expect(creation).rejects.toThrow(ModelError);
    await expect(creation).rejects.toThrow(
      "The model needs 1 MiB for weights in f32, 15625 MiB for 2000000 KV blocks and 1 MiB for its steps, " +
        "but the heap of WebAssembly holds 3904 MiB; --kv-blocks 499657 is the most there is room for",
    );
  });

  test("a directory that holds no model is refused in words", async () => {
    await expect(create({ model: import.meta.dirname })).rejects.toThrow(ModelError);
  });

  test("both ways to call ONNX Runtime give the same bits", async () => {
    for (const precision of ["f32", "int8"] as const) {
      const batch = aBatch([
        { sequenceId: "a", tokens: [1, 2, 3, 4, 5], output: "all" },
        { sequenceId: "b", tokens: [6], blockTable: blocksFrom(9, 1) },
      ]);
      const direct = await create({ precision, runtimeKind: "direct" });
      const open = await create({ precision, runtimeKind: "public" });
      expect(open.runtime).toContain("public");
      expect([...(await open.run(batch)).values]).toEqual([...(await direct.run(batch)).values]);
      await direct.close();
      await open.close();
    }
  });

  test("an executor runs in a thread of its own", async () => {
    const options = { ...OPTIONS, model: DRAFT, precision: "int8" } as const;
    const batch = aBatch([{ tokens: [0, 3, 1976, 7, 5, 4] }]);
    const thread = new Worker(new URL("executor-thread.mjs", import.meta.url), {
      workerData: { options, batch },
    });
    const answer = await new Promise<unknown>((resolve, reject) => {
      thread.once("message", resolve);
      thread.once("error", reject);
    });
    await thread.terminate();
    const here = await createOnnxExecutor(options);
    const { values } = await here.run(batch);
    expect(answer).toEqual({ runtime: here.runtime, logits: values.slice() });
    await here.close();
  }, 60_000);
});
