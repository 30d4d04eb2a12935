import { seededRandom } from "../../src/base/random.ts";
import { meanOf } from "../../simulator/statistics.ts";
import { aRequest, BenchEngine, BLOCK_TOKENS, cpuMsOf } from "./bench-engine.ts";
import { medianOf, ratioOf, show } from "../support/ratio.ts";
import type { Conditions, Row, Section } from "./section.ts";
import { takeTurns } from "./take-turns.ts";
import { someLength, somePrompt } from "./workload.ts";

/** The longest that may be asked for, which whoever reserves has to reserve. */
const CONTEXT_TOKENS = 1024;
const POOL_BLOCKS = 256;
const RESERVING_SEQUENCES = (POOL_BLOCKS * BLOCK_TOKENS) / CONTEXT_TOKENS;
const REQUESTS = 40;
const random = seededRandom(11);
const REQUESTS_ASKED = Array.from({ length: REQUESTS }, () => ({
  promptTokens: someLength(150, 500, random),
  outputTokens: someLength(100, 500, random),
}));

interface Side {
  readonly name: string;
  readonly isPaged: boolean;
}

const RESERVED: Side = { name: "reserved", isPaged: false };
const PAGED: Side = { name: "paged", isPaged: true };

interface Run {
  readonly tokensPerSecond: number;
  /** Means over steps in which requests wait: the memory is what bounds them. */
  readonly running: number;
  readonly wasteRatio: number;
}

export const PAGING: Section = {
  title: "Paged KV",
  published:
    "vLLM 2023: 2 to 4 times the throughput of FasterTransformer and Orca at equal latency, OPT and LLaMA on A100s; of KV memory less than 4 % is wasted instead of 60 to 80 %",
  how: `${REQUESTS} requests at once, prompts and outputs exponential (means 150 and 100), ${POOL_BLOCKS} blocks of ${BLOCK_TOKENS} tokens; reserved: ${CONTEXT_TOKENS} tokens for each, so that ${RESERVING_SEQUENCES} fit. While requests wait: how many run, and which share of what they hold is not KV`,
  why: "Waste is half a block a sequence, which is 4 % of 200 tokens, and the blocks of prompts that are being computed. Throughput follows concurrency only as far as a larger batch is worth it: in int8 a processor is busy at 4, so that paging buys room and no speed",
  predicts: false,
  measure,
};

async function measure({ machine, repeats, random: order }: Conditions): Promise<Row[]> {
  const sides = [RESERVED, PAGED];
  const runsOf = await takeTurns(sides, { repeats, random: order }, async (side) =>
    run(machine, side),
  );
  const [reserved, paged] = sides.map(runsOf);
  if (reserved === undefined || paged === undefined) return [];
  const meanTokens = medianOf(paged.map((one) => (POOL_BLOCKS * BLOCK_TOKENS) / one.running));
  return [
    {
      what: "run at once, paged over reserved",
      ours: `${show(ratioOf(runningOf(paged), runningOf(reserved), order))} (${medianOf(runningOf(reserved)).toFixed(1)} → ${medianOf(runningOf(paged)).toFixed(1)})`,
      predicted: (CONTEXT_TOKENS / meanTokens).toFixed(2),
    },
    {
      what: "KV memory wasted, reserved → paged",
      ours: `${wasteOf(reserved)} → ${wasteOf(paged)}`,
    },
    {
      what: "tokens a second, paged over reserved",
      ours: show(ratioOf(ratesOf(paged), ratesOf(reserved), order)),
    },
  ];
}

async function run(machine: Conditions["machine"], { isPaged }: Side): Promise<Run> {
  const bench = new BenchEngine(machine, {
    blockCount: POOL_BLOCKS,
    contextTokens: CONTEXT_TOKENS,
    sequencesMax: isPaged ? REQUESTS : RESERVING_SEQUENCES,
    isForecast: false,
  });
  const known = new Map<string, number>();
  for (const [index, { promptTokens, outputTokens }] of REQUESTS_ASKED.entries()) {
    known.set(`${index}`, promptTokens);
    bench.submit(
      aRequest({
        id: `${index}`,
        promptTokens: somePrompt(promptTokens, index),
        outputTokensMax: outputTokens,
      }),
    );
  }
  const running: number[] = [];
  const wasteRatios: number[] = [];
  const steps = [];
  for (;;) {
    // oxlint-disable-next-line no-await-in-loop -- step by step
    const step = await bench.step();
    if (step === undefined) break;
    steps.push(step);
    const load = bench.engine.load();
    if (load.queuedRequests === 0) continue;
    const heldTokens = isPaged
      ? load.usedBlocks * BLOCK_TOKENS
      : load.runningRequests * CONTEXT_TOKENS;
    running.push(load.runningRequests);
    wasteRatios.push(1 - load.runningKvTokens / heldTokens);
  }
  const outputs = REQUESTS_ASKED.reduce((sum, { outputTokens }) => sum + outputTokens, 0);
  return {
    tokensPerSecond: (1000 * outputs) / cpuMsOf(steps),
    running: meanOf(running),
    wasteRatio: meanOf(wasteRatios),
  };
}

const runningOf = (runs: readonly Run[]) => runs.map((one) => one.running);
const ratesOf = (runs: readonly Run[]) => runs.map((one) => one.tokensPerSecond);
const wasteOf = (runs: readonly Run[]) =>
  `${(100 * medianOf(runs.map(({ wasteRatio }) => wasteRatio))).toFixed(1)} %`;
