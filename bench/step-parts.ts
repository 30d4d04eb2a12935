import * as z from "zod";
import { countFlag, flagSwitch } from "../cli/flags.ts";
import { assert } from "../src/base/assert.ts";
import { Engine } from "../gpu-backend/engine/engine.ts";
import {
  createOnnxExecutor,
  type OnnxExecutor,
} from "../gpu-backend/engine/executor/onnx-executor.ts";
import type { GenerateRequest } from "../gpu-backend/engine/generate-request.ts";
import { loadModel } from "../gpu-backend/engine/model/load-model.ts";
import { createSamplingKernel } from "../gpu-backend/engine/executor/sampling-kernel.ts";
import { sampleBatch } from "../gpu-backend/engine/sample-batch.ts";
import { Sampler } from "../gpu-backend/engine/sampler.ts";
import { hashBlock } from "../gpu-backend/hash-block.ts";
import { BUNDLED_MODEL } from "../gpu-backend/settings.ts";
import { describeMachine } from "./support/machine.ts";
import { runProgram } from "./support/run-program.ts";
import { quantileOf } from "../simulator/statistics.ts";

const BATCHES = [1, 4, 16];
const PROMPT_TOKENS = 128;
const OUTPUT_TOKENS = 64;
const QUICK_REPEATS = 2;

const FLAGS = z.object({
  repeats: countFlag(
    { min: 1, max: 1000, default: 20 },
    "How many batches of each size are served",
  ),
  quick: flagSwitch("Serve two batches of each size only"),
});
type Flags = z.output<typeof FLAGS>;

const HELP = `Usage: node --import tsx bench/step-parts.ts [flags]

Serves batches of requests with the real engine, int8, on one thread, and prints as Markdown what the
parts of a decode step take: to plan, to execute, to sample and to commit. An engine that planned a
step while the one before it runs could hide plan and commit, but not the sampling: a sampled token is
what the next step computes.`;

/** What each part of one step took. */
interface StepParts {
  readonly planMs: number;
  readonly executeMs: number;
  readonly sampleMs: number;
  readonly commitMs: number;
}

function anEngine(executor: OnnxExecutor): Engine {
  const { blockCount, blockTokens, contextTokens, batchTokensMax } = executor;
  return new Engine({
    blockCount,
    blockTokens,
    contextTokens,
    batchTokensMax,
    sequencesMax: Math.max(...BATCHES),
    queueMax: 0,
    prefixCache: true,
    modelRevision: executor.revision,
    hashBlock,
  });
}

/** A sampled request, as most are: greedy ones would spare the sampler its work. */
function aRequest(index: number, seed: number): GenerateRequest {
  return {
    id: `${index}`,
    promptTokens: Array.from({ length: PROMPT_TOKENS }, (_, at) => 300 + ((at * 7 + seed) % 3000)),
    outputTokensMax: OUTPUT_TOKENS,
    outputTokensMin: OUTPUT_TOKENS,
    sampling: {
      temperature: 0.7,
      topK: 0,
      topP: 0.95,
      minP: 0,
      seed,
      repetitionPenalty: 1,
      frequencyPenalty: 0,
      presencePenalty: 0,
      logitBias: [],
    },
    tenant: "bench",
    priority: 0,
    stopTokenIds: [],
    cacheSalt: "bench",
  };
}

/** Serves one batch, and returns what its steps took in which every request decoded. */
async function serveBatch(
  executor: OnnxExecutor,
  { size, seed }: { readonly size: number; readonly seed: number },
): Promise<StepParts[]> {
  const engine = anEngine(executor);
  const sampler = new Sampler(
    executor.vocabularyTokens,
    createSamplingKernel(executor.vocabularyTokens),
  );
  for (let index = 0; index < size; index++) engine.submit(aRequest(index, seed + index), 0);
  const parts: StepParts[] = [];
  for (;;) {
    const startedAtMs = performance.now();
    const { batch } = engine.plan(0);
    if (batch === undefined) return parts;
    const plannedAtMs = performance.now();
    const output = await executor.run(batch);
    const executedAtMs = performance.now();
    const results = sampleBatch(sampler, batch, output);
    const sampledAtMs = performance.now();
    engine.commit(batch, results);
    const committedAtMs = performance.now();
    assert(
      results.every((result) => result.kind === "computed"),
      "A benchmark computes every row",
    );
    if (batch.rows.length < size || batch.totalTokens > size) continue;
    parts.push({
      planMs: plannedAtMs - startedAtMs,
      executeMs: executedAtMs - plannedAtMs,
      sampleMs: sampledAtMs - executedAtMs,
      commitMs: committedAtMs - sampledAtMs,
    });
  }
}

function toRow(size: number, steps: readonly StepParts[]): string {
  const medianOf = (part: keyof StepParts) =>
    quantileOf(
      steps.map((step) => step[part]),
      0.5,
    );
  const parts = (["planMs", "executeMs", "sampleMs", "commitMs"] as const).map(medianOf);
  const cells = parts.map((ms) => ms.toFixed(3));
  const stepMs = parts.reduce((sum, ms) => sum + ms, 0);
  const percent = (100 * (medianOf("planMs") + medianOf("commitMs"))) / stepMs;
  return `| ${size} | ${cells.join(" | ")} | ${percent.toFixed(1)} % |`;
}

async function runBenchmark(flags: Flags): Promise<string> {
  const repeats = flags.quick ? QUICK_REPEATS : flags.repeats;
  const machine = describeMachine();
  const executor = await createOnnxExecutor({
    model: await loadModel(BUNDLED_MODEL),
    precision: "int8",
    blockTokens: 16,
    blockCount: 512,
    batchTokensMax: 256,
  });
  const steps = new Map(BATCHES.map((size): [number, StepParts[]] => [size, []]));
  // Sizes take turns, so that a disturbance hits all of them; the first turn warms up.
  for (let repeat = -1; repeat < repeats; repeat++) {
    for (const [size, parts] of steps) {
      const served = await serveBatch(executor, { size, seed: 101 + 100 * repeat });
      if (repeat >= 0) parts.push(...served);
    }
  }
  await executor.close();
  return [
    "# What a decode step is made of",
    "",
    machine,
    "",
    "| batch | plan, ms | execute, ms | sample, ms | commit, ms | plan and commit |",
    "|---:|---:|---:|---:|---:|---:|",
    ...Array.from(steps, ([size, parts]) => toRow(size, parts)),
    "",
  ].join("\n");
}

await runProgram({ flags: FLAGS, help: HELP, run: runBenchmark });
