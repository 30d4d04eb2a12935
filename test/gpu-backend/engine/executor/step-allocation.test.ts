import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  createOnnxExecutor,
  type OnnxExecutor,
} from "../../../../gpu-backend/engine/executor/onnx-executor.ts";
import { createSamplingKernel } from "../../../../gpu-backend/engine/executor/sampling-kernel.ts";
import { sampleBatch } from "../../../../gpu-backend/engine/sample-batch.ts";
import { Sampler } from "../../../../gpu-backend/engine/sampler.ts";
import { TokenHistory } from "../../../../gpu-backend/engine/token-history.ts";
import { quantileOf } from "../../../../simulator/statistics.ts";
import { aSampling } from "../../../support/engine-builders.ts";
import { aBatch, blocksFrom } from "./batches.ts";
import { aModel } from "./random-model.ts";

setFlagsFromString("--expose-gc");
const collect: unknown = runInNewContext("gc");

function heapAfterCollection(): number {
  if (typeof collect !== "function") throw new Error("the collector can be called");
  collect();
  return process.memoryUsage().heapUsed;
}

const SEQUENCES = 16;

describe("a step of 16 sequences that decode", () => {
  let executor: OnnxExecutor;
  let step: () => Promise<number>;
  beforeAll(async () => {
    executor = await createOnnxExecutor({
      model: aModel(1),
      precision: "int8",
      blockTokens: 16,
      blockCount: SEQUENCES,
      batchTokensMax: 64,
    });
    const { vocabularyTokens } = executor;
    const sampler = new Sampler(vocabularyTokens, createSamplingKernel(vocabularyTokens));
    const sampling = aSampling({ temperature: 0 });
    const history = new TokenHistory(sampling, []);
    const choice = { sampling, outputIndex: 0, history, forbiddenTokenIds: [] };
    const { rows, totalTokens } = aBatch(
      Array.from({ length: SEQUENCES }, (_, index) => ({
        sequenceId: `${index}`,
        tokens: [index],
        startPosition: 9,
        blockTable: blocksFrom(index, 1),
      })),
    );
    const batch = { rows: rows.map((row) => ({ ...row, choice })), totalTokens };
    step = async () => sampleBatch(sampler, batch, await executor.run(batch)).length;
    // Until the code is compiled it allocates more.
    for (let index = 0; index < 3000; index++) await step();
  }, 60_000);
  afterAll(() => executor.close());

  test("leaves at most 1.5 kilobytes a sequence to be collected", async () => {
    const perStep: number[] = [];
    for (let repeat = 0; repeat < 9; repeat++) {
      const before = heapAfterCollection();
      for (let index = 0; index < 100; index++) await step();
      perStep.push((process.memoryUsage().heapUsed - before) / 100);
    }
    // Results, views of the rows and the checks of the batch; it is about 16 kB, and was 33.
    expect(quantileOf(perStep, 0.5)).toBeLessThan(1536 * SEQUENCES);
  });

  test("leaves nothing for good", async () => {
    const pool = process.memoryUsage().arrayBuffers;
    const left: number[] = [];
    for (let repeat = 0; repeat < 4; repeat++) {
      const before = heapAfterCollection();
      for (let index = 0; index < 1000; index++) await step();
      left.push(heapAfterCollection() - before);
    }
    // What else the process compiles or keeps comes once; a leak comes every time.
    expect(Math.min(...left), "20 bytes a step").toBeLessThan(20_000);
    expect(process.memoryUsage().arrayBuffers).toBeLessThanOrEqual(pool + 65_536);
  });
});
