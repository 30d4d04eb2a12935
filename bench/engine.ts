import * as z from "zod";
import { CommandFailure } from "../cli/command.ts";
import { countFlag, FLAG_HELP, flagSwitch } from "../cli/flags.ts";
import { type LoadedModel, loadModel } from "../gpu-backend/engine/model/load-model.ts";
import { BUNDLED_MODEL } from "../gpu-backend/settings.ts";
import { assert } from "../src/base/assert.ts";
import { seededRandom } from "../src/base/random.ts";
import { aConfig, aModel } from "../test/gpu-backend/engine/executor/random-model.ts";
import { GOLDEN } from "../test/gpu-backend/engine/executor/golden.ts";
import type { EngineSide } from "./engine/engine-side.ts";
import { hasLlamaCpp, openLlamaCpp } from "./engine/llama-cpp-side.ts";
import {
  DECODE_SEQUENCES,
  DECODE_STEPS,
  measureSides,
  PREFILL_TOKENS,
  PROMPT_TOKENS,
  ratioOf,
  type Speeds,
} from "./engine/measure-sides.ts";
import { compareTokens } from "./engine/same-tokens.ts";
import { openSluice } from "./engine/sluice-side.ts";
import { describeMachine } from "./support/machine.ts";
import { runProgram } from "./support/run-program.ts";
import { quantileOf } from "./support/statistics.ts";

const FLAGS = z.object({
  model: z
    .string()
    .default(BUNDLED_MODEL)
    .register(FLAG_HELP, { valueName: "DIR", meaning: "The model (the bundled one)" }),
  large: flagSwitch("Take random weights of 110 M parameters instead"),
  repeats: countFlag({ min: 1, max: 1000, default: 20 }, "How often each figure is measured"),
  quick: flagSwitch("Measure each figure three times only"),
});
type Flags = z.output<typeof FLAGS>;

const HELP = `Usage: npm run bench:engine -- [flags]

Measures what the engine computes on one thread, sampling included, without scheduler and server,
and beside it llama.cpp with the very same weights, where that is installed
(npm install --prefix bench/peers --ignore-scripts). Prints Markdown. Sides take turns. Speeds are
medians in tokens per second of CPU time, which is the one to look at on a busy machine; ratios are
medians over repetitions, with intervals of 95 %.`;

const QUICK_REPEATS = 3;
const SEED = 8;
/** The shape of a GPT-2 small, with an output matrix of its own. */
const LARGE = aConfig({
  hiddenSize: 768,
  layerCount: 12,
  headCount: 12,
  kvHeadCount: 12,
  headDimensions: 64,
  mlpSize: 2048,
  vocabularyTokens: 32_000,
  contextTokens: 2048,
});
const AGREEMENT_OUTPUT_TOKENS = 32;

const LIMITS = {
  promptTokensMax: Math.max(...PREFILL_TOKENS),
  sequencesMax: Math.max(...DECODE_SEQUENCES),
  sequenceTokensMax: PROMPT_TOKENS + DECODE_STEPS,
};

async function runBenchmark(flags: Flags): Promise<string> {
  const repeats = flags.quick ? QUICK_REPEATS : flags.repeats;
  const machine = describeMachine();
  const model = flags.large ? aModel(SEED, LARGE) : await loadModel(flags.model);
  const ours = [
    await openSluice(model, { precision: "f32", runtime: "wasm" }, LIMITS),
    await openSluice(model, { precision: "int8", runtime: "wasm" }, LIMITS),
  ] as const;
  const peers = hasLlamaCpp
    ? ([
        await openLlamaCpp(model, { precision: "f32" }, LIMITS),
        await openLlamaCpp(model, { precision: "q8_0" }, LIMITS),
        await openLlamaCpp(model, { precision: "q8_0", flashAttention: false }, LIMITS),
      ] as const)
    : [];
  const agreement = peers.length > 0 && !flags.large ? await agreementOf(ours[0], peers[0]) : "";
  const sides = [...ours, ...peers];
  const speeds = await measureSides(sides, { repeats, random: seededRandom(SEED) });
  for (const side of sides) await side.close();
  const { hiddenSize, layerCount, headCount, kvHeadCount } = model.config;
  const words = [flags.large ? "--large " : "", `--repeats ${repeats}`].join("");
  return [
    "# What the engine computes",
    "",
    `\`npm run bench:engine -- ${words}\``,
    "",
    machine,
    "- one thread on each side; llama.cpp is node-llama-cpp 3.21.1",
    `- model: ${describeModel(model)}, ${layerCount} layers, hidden ${hiddenSize}, ${headCount} heads over ${kvHeadCount}`,
    `- ${repeats} repetitions; decoding: ${DECODE_STEPS} steps behind a prompt of ${PROMPT_TOKENS} tokens; greedy unless said otherwise`,
    agreement,
    "",
    ...toSpeedTable(sides, speeds),
    "",
    ...(peers.length > 0 ? toRatioTable(sides, speeds) : []),
  ].join("\n");
}

function describeModel(model: LoadedModel): string {
  return `${(model.parameterCount / 1e6).toFixed(1)} M parameters`;
}

/** Behind real prompts, since on random ones any two tokens may be nearly tied. */
async function agreementOf(side: EngineSide, other: EngineSide): Promise<string> {
  const prompts = GOLDEN.models["sluice-tiny"]?.prompts.map((prompt) => prompt.prompt_ids) ?? [];
  const fitting = prompts.filter(
    (prompt) => prompt.length + AGREEMENT_OUTPUT_TOKENS <= LIMITS.sequenceTokensMax,
  );
  const { equalTokens, tokens } = await compareTokens(side, other, {
    prompts: fitting,
    outputTokens: AGREEMENT_OUTPUT_TOKENS,
  });
  if (equalTokens < 0.98 * tokens) {
    throw new CommandFailure(
      `${side.name} and ${other.name} choose the same token in ${equalTokens} of ${tokens} steps: they do not compute the same model`,
    );
  }
  return `- ${side.name} and ${other.name} choose the same token in ${equalTokens} of ${tokens} greedy steps behind ${fitting.length} prompts`;
}

function toSpeedTable(sides: readonly EngineSide[], speeds: Speeds): string[] {
  return [
    `| tokens/s | ${sides.map(({ name }) => name).join(" | ")} |`,
    `|---|${sides.map(() => "---:|").join("")}`,
    ...Array.from(speeds, ([workload, bySide]) => {
      const cells = [...bySide.values()].map((all) => {
        const perCpuSecond = all.map((speed) => speed.perCpuSecond);
        return Math.round(quantileOf(perCpuSecond, 0.5));
      });
      return `| ${[workload.name, ...cells].join(" | ")} |`;
    }),
  ];
}

function toRatioTable(sides: readonly EngineSide[], speeds: Speeds): string[] {
  const [f32, int8, peerF32, peerQ8, peerQ8Plain] = sides;
  assert(
    f32 !== undefined &&
      int8 !== undefined &&
      peerF32 !== undefined &&
      peerQ8 !== undefined &&
      peerQ8Plain !== undefined,
    "all sides are there",
  );
  const pairs = [
    [f32, peerF32],
    [int8, peerQ8],
    [int8, peerQ8Plain],
  ] as const;
  const random = seededRandom(SEED);
  return [
    `| ratio | ${pairs.map(([side, other]) => `${side.name} / ${other.name}`).join(" | ")} |`,
    `|---|${pairs.map(() => "---:|").join("")}`,
    ...Array.from(speeds, ([workload, bySide]) => {
      const cells = pairs.map(([side, other]) => {
        const { median, low, high } = ratioOf(
          bySide.get(side) ?? [],
          bySide.get(other) ?? [],
          random,
        );
        return `${median.toFixed(2)} (${low.toFixed(2)}–${high.toFixed(2)})`;
      });
      return `| ${[workload.name, ...cells].join(" | ")} |`;
    }),
  ];
}

await runProgram({ flags: FLAGS, help: HELP, run: runBenchmark });
