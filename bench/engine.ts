import * as z from "zod";
import { countFlag, FLAG_HELP, flagSwitch } from "../cli/flags.ts";
import type { BatchRow } from "../gpu-backend/engine/batch.ts";
import type { Precision } from "../gpu-backend/engine/executor/load-stages.ts";
import {
  createOnnxExecutor,
  type OnnxExecutor,
} from "../gpu-backend/engine/executor/onnx-executor.ts";
import { loadModel } from "../gpu-backend/engine/model/load-model.ts";
import type { StepOutput } from "../gpu-backend/engine/step-output.ts";
import { BUNDLED_MODEL } from "../gpu-backend/settings.ts";
import { describeMachine } from "./support/machine.ts";
import { runProgram } from "./support/run-program.ts";
import { quantileOf } from "./support/statistics.ts";

const FLAGS = z.object({
  model: z
    .string()
    .default(BUNDLED_MODEL)
    .register(FLAG_HELP, { valueName: "DIR", meaning: "The model (the bundled one)" }),
  repeats: countFlag({ min: 1, max: 1000, default: 60 }, "How often each figure is measured"),
  quick: flagSwitch("Measure each figure three times only"),
});
type Flags = z.output<typeof FLAGS>;

const HELP = `Usage: npm run bench:engine -- [flags]

Measures what the engine's executor computes on one thread, greedy sampling included, without
scheduler and server. Precisions and workloads take turns, so that a disturbance hits all of them.
Prints Markdown. Figures are those of single steps: the best, the median, and the median by the
processor time that the process was given, which is the one to look at on a busy machine.`;

const PRECISIONS: readonly Precision[] = ["f32", "int8"];
const DECODE_SEQUENCES = [1, 4, 16];
const PREFILL_TOKENS = [128, 512];
/** Decoding starts behind a prompt of this length. */
const PROMPT_TOKENS = 128;
/** Enough that the first one, whose weights others have pushed out of the caches, hardly counts. */
const DECODE_STEPS = 64;
const BLOCK_TOKENS = 16;
const SEQUENCES_MAX = Math.max(...DECODE_SEQUENCES);
/** Blocks lie as the engine would deal them out: those of a sequence side by side, none unused. */
const DECODE_BLOCKS = Math.ceil((PROMPT_TOKENS + DECODE_STEPS) / BLOCK_TOKENS);
const PREFILL_BLOCKS = Math.ceil(Math.max(...PREFILL_TOKENS) / BLOCK_TOKENS);
const DECODE_TABLES = Array.from({ length: SEQUENCES_MAX }, (_, sequence) =>
  blocksFrom(sequence * DECODE_BLOCKS, DECODE_BLOCKS),
);
const PREFILL_TABLE = blocksFrom(SEQUENCES_MAX * DECODE_BLOCKS, PREFILL_BLOCKS);
const QUICK_REPEATS = 3;
/** The first runs are slower: the machine code of the kernels is still being made. */
const WARM_UP_REPEATS = 2;

/** Runs a step that computes so many tokens, measures it, and returns what was sampled. */
type TimeStep = (tokenCount: number, step: () => Promise<number[]>) => Promise<number[]>;

/** One repetition of something, step by step. */
interface Workload {
  readonly name: string;
  run(executor: OnnxExecutor, timeStep: TimeStep): Promise<void>;
}

const WORKLOADS: readonly Workload[] = [
  ...DECODE_SEQUENCES.map((count) => ({
    name: `decode, batch ${count}`,
    run: (executor: OnnxExecutor, timeStep: TimeStep) => decode(executor, count, timeStep),
  })),
  ...PREFILL_TOKENS.map((count) => ({
    name: `prefill, ${count} tokens`,
    run: (executor: OnnxExecutor, timeStep: TimeStep) => prefill(executor, count, timeStep),
  })),
];

/** Tokens per second in one step. */
interface Sample {
  readonly perSecond: number;
  /** By the time the processor gave us: what others on the machine take does not count. */
  readonly perCpuSecond: number;
}

/** The steps of all repetitions, by workload and precision. */
type Samples = ReadonlyMap<Workload, ReadonlyMap<Precision, Sample[]>>;

async function runBenchmark(flags: Flags): Promise<string> {
  const repeats = flags.quick ? QUICK_REPEATS : flags.repeats;
  const machine = describeMachine();
  const model = await loadModel(flags.model);
  const executors = new Map<Precision, OnnxExecutor>();
  for (const precision of PRECISIONS) {
    executors.set(
      precision,
      await createOnnxExecutor({
        model,
        precision,
        blockTokens: BLOCK_TOKENS,
        blockCount: SEQUENCES_MAX * DECODE_BLOCKS + PREFILL_BLOCKS,
        batchTokensMax: Math.max(...PREFILL_TOKENS),
      }),
    );
  }
  const samples = await measure(executors, repeats);
  const runtimes = new Set([...executors.values()].map((executor) => executor.runtime));
  for (const executor of executors.values()) await executor.close();
  const { hiddenSize, layerCount, headCount, kvHeadCount } = model.config;
  return [
    "# What the engine computes",
    "",
    `\`npm run bench:engine -- --repeats ${repeats}\``,
    "",
    machine,
    `- ${[...runtimes].join(", ")}, one thread`,
    `- model: ${(model.parameterCount / 1e6).toFixed(1)} M parameters, ${layerCount} layers, hidden ${hiddenSize}, ${headCount} heads over ${kvHeadCount}`,
    `- ${repeats} repetitions; decoding: ${DECODE_STEPS} steps behind a prompt of ${PROMPT_TOKENS} tokens`,
    "",
    ...toTable(samples),
  ].join("\n");
}

async function measure(
  executors: ReadonlyMap<Precision, OnnxExecutor>,
  repeats: number,
): Promise<Samples> {
  for (const executor of executors.values()) await computePrompts(executor);
  const samples = new Map(
    WORKLOADS.map((workload) => [
      workload,
      new Map(PRECISIONS.map((precision): [Precision, Sample[]] => [precision, []])),
    ]),
  );
  for (let repeat = -WARM_UP_REPEATS; repeat < repeats; repeat++) {
    for (const [workload, byPrecision] of samples) {
      for (const [precision, executor] of executors) {
        await workload.run(executor, async (tokenCount, step) => {
          const { tokens, sample } = await measureStep(tokenCount, step);
          if (repeat >= 0) byPrecision.get(precision)?.push(sample);
          return tokens;
        });
      }
    }
  }
  return samples;
}

async function measureStep(
  tokenCount: number,
  step: () => Promise<number[]>,
): Promise<{ tokens: number[]; sample: Sample }> {
  const cpuAtStart = process.cpuUsage();
  const startedAtMs = performance.now();
  const tokens = await step();
  const seconds = (performance.now() - startedAtMs) / 1000;
  const { user, system } = process.cpuUsage(cpuAtStart);
  const cpuSeconds = (user + system) / 1e6;
  return {
    tokens,
    sample: { perSecond: tokenCount / seconds, perCpuSecond: tokenCount / cpuSeconds },
  };
}

/** Fills the KV of every sequence's prompt; decoding overwrites only what comes behind it. */
async function computePrompts(executor: OnnxExecutor): Promise<void> {
  for (const blockTable of DECODE_TABLES) {
    const tokens = Int32Array.from({ length: PROMPT_TOKENS }, (_, index) =>
      tokenAt(executor, index),
    );
    await run(executor, [aRow({ tokens, startPosition: 0, blockTable })]);
  }
}

async function decode(
  executor: OnnxExecutor,
  sequenceCount: number,
  timeStep: TimeStep,
): Promise<void> {
  const tables = DECODE_TABLES.slice(0, sequenceCount);
  let next = tables.map((_, sequence) => tokenAt(executor, sequence));
  for (let step = 0; step < DECODE_STEPS; step++) {
    const rows = tables.map((blockTable, sequence) =>
      aRow({
        tokens: Int32Array.of(next[sequence] ?? 0),
        startPosition: PROMPT_TOKENS + step,
        blockTable,
      }),
    );
    next = await timeStep(sequenceCount, async () => greedyTokens(await run(executor, rows)));
  }
}

async function prefill(
  executor: OnnxExecutor,
  tokenCount: number,
  timeStep: TimeStep,
): Promise<void> {
  const tokens = Int32Array.from({ length: tokenCount }, (_, index) => tokenAt(executor, index));
  const row = aRow({ tokens, startPosition: 0, blockTable: PREFILL_TABLE });
  await timeStep(tokenCount, async () => greedyTokens(await run(executor, [row])));
}

/** Any text costs the same, so the tokens follow one another in a fixed order. */
function tokenAt(executor: OnnxExecutor, index: number): number {
  return (index * 37) % executor.vocabularyTokens;
}

function aRow(row: Pick<BatchRow, "tokens" | "startPosition" | "blockTable">): BatchRow {
  return {
    ...row,
    sequenceId: String(row.blockTable[0]),
    output: "last",
    outputIndex: 0,
  };
}

function blocksFrom(first: number, count: number): Int32Array {
  return Int32Array.from({ length: count }, (_, index) => first + index);
}

function run(executor: OnnxExecutor, rows: readonly BatchRow[]): Promise<StepOutput> {
  return executor.run({
    rows,
    totalTokens: rows.reduce((sum, row) => sum + row.tokens.length, 0),
  });
}

function greedyTokens({ rowCount, vocabularyTokens, values }: StepOutput): number[] {
  return Array.from({ length: rowCount }, (_, row) => {
    const first = row * vocabularyTokens;
    let best = 0;
    for (let token = 1; token < vocabularyTokens; token++) {
      if ((values[first + token] ?? 0) > (values[first + best] ?? 0)) best = token;
    }
    return best;
  });
}

function toTable(samples: Samples): string[] {
  const columns = PRECISIONS.flatMap((precision) =>
    ["best", "median", "by CPU time"].map((figure) => `${precision} ${figure}`),
  );
  const lines = [...samples].map(([workload, byPrecision]) => {
    const cells = [...byPrecision.values()].flatMap((steps) => {
      const perSecond = steps.map((sample) => sample.perSecond);
      const perCpuSecond = steps.map((sample) => sample.perCpuSecond);
      return [quantileOf(perSecond, 1), quantileOf(perSecond, 0.5), quantileOf(perCpuSecond, 0.5)];
    });
    return `| ${[workload.name, ...cells.map(Math.round)].join(" | ")} |`;
  });
  return [
    `| tokens/s | ${columns.join(" | ")} |`,
    `|---|${columns.map(() => "---:|").join("")}`,
    ...lines,
  ];
}

await runProgram({ flags: FLAGS, help: HELP, run: runBenchmark });
