import { afterEach, describe, expect, test } from "vitest";
import {
  HEAP_BYTES_MAX,
  heapBytesOf,
  planMemory,
  poolRoomBytesOf,
  requireMemory,
} from "../../../../gpu-backend/engine/executor/memory-plan.ts";
import {
  createOnnxExecutor,
  type OnnxExecutor,
} from "../../../../gpu-backend/engine/executor/onnx-executor.ts";
import { ModelError } from "../../../../gpu-backend/engine/model/model-error.ts";
import { aConfig, aModel } from "./random-model.ts";
import { RUNTIMES_AND_PRECISIONS } from "./runtimes.ts";

const NEEDS = {
  blockTokens: 16,
  blockCount: 64,
  batchTokensMax: 64,
  embeddingValueBytes: 4,
  kvPrecision: "f32",
} as const;
/** Llama 3.2 1B. */
const ONE_BILLION = aConfig({
  hiddenSize: 2048,
  layerCount: 16,
  headCount: 32,
  kvHeadCount: 8,
  headDimensions: 64,
  mlpSize: 8192,
  vocabularyTokens: 128_256,
  contextTokens: 131_072,
  tiedEmbeddings: true,
});

let executor: OnnxExecutor | undefined;
afterEach(() => executor?.close());

const scratch = (changes: object) =>
  planMemory(ONE_BILLION, { precision: "int8", ...NEEDS, ...changes }).scratchBytes;

const refusalOf = (precision: "f32" | "int8", blockCount: number) => () => {
  const needs = {
    precision,
    blockTokens: 16,
    blockCount,
    batchTokensMax: 256,
    embeddingValueBytes: 4,
    kvPrecision: "f32",
  } as const;
  requireMemory(planMemory(ONE_BILLION, needs), needs);
};

describe("planMemory()", () => {
  test.each(RUNTIMES_AND_PRECISIONS)(
    "says what weights and pool then take in $precision on $runtime",
    async ({ runtime, precision }) => {
      const config = aConfig({
        hiddenSize: 128,
        mlpSize: 384,
        vocabularyTokens: 900,
        layerCount: 4,
      });
      const model = aModel(1, config);
      executor = await createOnnxExecutor({ model, runtime, precision, ...NEEDS });
      const plan = executor.memoryPlan;
      const { weightBytes, kvPoolBytes } = executor.memory;
      expect(plan.kvPoolBytes).toBe(kvPoolBytes);
      expect(plan.kvPoolTokens).toBe(1024);
      expect(weightBytes / plan.weightBytes).toBeGreaterThan(0.99);
      expect(weightBytes / plan.weightBytes).toBeLessThan(1.02);
    },
  );

  test("counts int8 matrices twice where the runtime has its own, and once in the heap", () => {
    const needs = { precision: "int8", ...NEEDS } as const;
    const [once, twice] = [false, true].map((runtimeCopies) =>
      planMemory(ONE_BILLION, { ...needs, runtimeCopies }),
    );
    const values = 16 * 2048 * (3072 + 2048 + 3 * 8192) + 128_256 * 2048;
    expect((twice?.weightBytes ?? 0) - (once?.weightBytes ?? 0)).toBe(values);
    expect([once, twice].map((plan) => plan && heapBytesOf(plan))).toEqual([
      once && heapBytesOf(once),
      once && heapBytesOf(once),
    ]);
    const inFloats = planMemory(ONE_BILLION, { ...needs, precision: "f32", runtimeCopies: true });
    expect(inFloats.runtimeCopyBytes).toBe(0);
  });

  test("counts embeddings of 16 bits as such, and none of them in the heap", () => {
    const plans = ([4, 2] as const).map((embeddingValueBytes) =>
      planMemory(ONE_BILLION, { precision: "int8", ...NEEDS, embeddingValueBytes }),
    );
    const [floats, halves] = plans.map(({ embeddingBytes }) => embeddingBytes);
    expect([floats, halves]).toEqual([4 * 128_256 * 2048, 2 * 128_256 * 2048]);
    const [inFloats, inHalves] = plans.map((plan) => heapBytesOf(plan));
    expect(inFloats).toBe(inHalves);
    expect(inFloats).toBeLessThan(1.5e9);
    const [plan = planMemory(ONE_BILLION, { precision: "int8", ...NEEDS })] = plans;
    expect(poolRoomBytesOf(plan)).toBe(HEAP_BYTES_MAX - heapBytesOf(plan) + plan.kvPoolBytes);
  });

  test("counts what steps need, by their size and by the context", () => {
    expect(scratch({ batchTokensMax: 512 })).toBeGreaterThan(4 * 512 * 5 * 8192);
    expect(scratch({ blockCount: 8192 }) - scratch({ blockCount: 64 })).toBe(
      (131_072 - 1024) * (64 + 17) * 4,
    );
  });
});

describe("requireMemory()", () => {
  test("lets pass what fits", () => {
    expect(refusalOf("int8", 64)).not.toThrow();
  });

  test("says how many blocks there is room for, and that is right", () => {
    const refused = refusalOf("int8", 100_000);
    expect(refused).toThrow(ModelError);
    expect(refused).toThrow(
      /MiB for weights in int8, .* MiB for 100000 KV blocks and .* MiB for its/,
    );
    let advice = "";
    try {
      refused();
    } catch (error) {
      advice = String(error);
    }
    const blocks = Number(/--kv-blocks (\d+) is the most/.exec(advice)?.[1]);
    expect(blocks).toBeGreaterThan(500);
    expect(refusalOf("int8", blocks)).not.toThrow();
  });

  test("advises int8 where f32 is too much, and another engine where both are", () => {
    expect(refusalOf("f32", 64)).toThrow("--precision int8 takes a quarter");
    const huge = { ...ONE_BILLION, layerCount: 100 };
    const needs = { precision: "int8", ...NEEDS } as const;
    expect(() => requireMemory(planMemory(huge, needs), needs)).toThrow("serve a smaller model");
  });

  test("refuses before a runtime is opened, whatever the model", async () => {
    const options = { precision: "int8", ...NEEDS, blockCount: 1_000_000 } as const;
    const model = { ...aModel(1), config: ONE_BILLION };
    await expect(createOnnxExecutor({ model, ...options })).rejects.toThrow(ModelError);
    expect(HEAP_BYTES_MAX).toBeLessThan(2 ** 32);
  });
});
