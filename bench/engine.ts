import * as z from "zod";
import { CommandFailure } from "../cli/command.ts";
import { countFlag, FLAG_HELP, flagSwitch } from "../cli/flags.ts";
import { hasNativePackage } from "../gpu-backend/engine/executor/native-package.ts";
import { type LoadedModel, loadModel } from "../gpu-backend/engine/model/load-model.ts";
import { BUNDLED_MODEL } from "../gpu-backend/settings.ts";
import { seededRandom } from "../src/base/random.ts";
import { aConfig, aModel } from "../test/gpu-backend/engine/executor/random-model.ts";
import { GOLDEN } from "../test/gpu-backend/engine/executor/golden.ts";
import type { EngineSide } from "./engine/engine-side.ts";
import { hasLlamaCpp, openLlamaCpp } from "./engine/llama-cpp-side.ts";
import {
  type Extent,
  limitsOf,
  measureSides,
  PROMPT_TOKENS,
  speedRatioOf,
  type Speeds,
} from "./engine/measure-sides.ts";
import { toRatioPlot } from "./engine/ratio-plot.ts";
import { compareTokens } from "./engine/same-tokens.ts";
import { openSluice, type SluiceWay, STEP_PARTS } from "./engine/sluice-side.ts";
import { measureParts } from "./engine/step-shares.ts";
import { describeMachine } from "./support/machine.ts";
import { runProgram } from "./support/run-program.ts";
import { quantileOf } from "../simulator/statistics.ts";

const FLAGS = z.object({
  model: z
    .string()
    .default(BUNDLED_MODEL)
    .register(FLAG_HELP, { valueName: "DIR", meaning: "The model (the bundled one)" }),
  large: flagSwitch("Take random weights of 134 M parameters instead"),
  repeats: countFlag({ min: 1, max: 1000, default: 20 }, "How often each figure is measured"),
  quick: flagSwitch("Measure each figure three times only"),
});
type Flags = z.output<typeof FLAGS>;

const HELP = `Usage: npm run bench:engine -- [flags]

Measures what the engine computes on one thread, sampling included, without scheduler and server,
in every runtime that is installed, and beside it llama.cpp with the very same weights, where that is
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

const WASM_WAYS: readonly SluiceWay[] = [
  { precision: "f32", runtime: "wasm" },
  { precision: "int8", runtime: "wasm" },
  // For what keys and values in bytes gain.
  { precision: "int8", kvPrecision: "f32", runtime: "wasm" },
];
const NATIVE_WAYS: readonly SluiceWay[] = [
  { precision: "f32", runtime: "node" },
  { precision: "int8", runtime: "node" },
];
/** With flash attention, as node-llama-cpp has it by default, and without. */
const PEERS = [
  { precision: "f32" },
  { precision: "q8_0" },
  { precision: "q8_0", flashAttention: false },
] as const;

const EXTENT: Extent = {
  decodeSequences: [1, 4, 16, 32],
  decodeSteps: 64,
  prefillTokens: [128, 512, 1500],
};
/** A model twenty times as large is not measured for twenty times as long. */
const LARGE_EXTENT: Extent = {
  decodeSequences: [1, 4, 16],
  decodeSteps: 16,
  prefillTokens: [128, 512],
};

async function runBenchmark(flags: Flags): Promise<string> {
  const repeats = flags.quick ? QUICK_REPEATS : flags.repeats;
  const machine = describeMachine();
  const model = flags.large ? aModel(SEED, LARGE) : await loadModel(flags.model);
  const extent = flags.large ? LARGE_EXTENT : EXTENT;
  const limits = limitsOf(extent);
  const ways = hasNativePackage() ? [...WASM_WAYS, ...NATIVE_WAYS] : WASM_WAYS;
  const parts = new Map<string, Parts>();
  for (const way of ways) {
    if (way.precision !== "int8" || way.kvPrecision !== undefined) continue;
    parts.set(way.runtime, await measureParts(model, way, extent));
  }
  const ours: EngineSide[] = [];
  for (const way of ways) ours.push(await openSluice(model, way, limits));
  const peers: EngineSide[] = [];
  for (const peer of hasLlamaCpp ? PEERS : []) peers.push(await openLlamaCpp(model, peer, limits));
  const [side] = ours;
  const [peer] = peers;
  const agreement =
    side === undefined || peer === undefined || flags.large ? [] : [await agreementOf(side, peer)];
  const sides = [...ours, ...peers];
  const speeds = await measureSides(sides, {
    extent,
    repeats,
    random: seededRandom(SEED),
  });
  for (const each of sides) await each.close();
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
    `- ${repeats} repetitions; decoding: ${extent.decodeSteps} steps behind a prompt of ${PROMPT_TOKENS} tokens; greedy unless said otherwise`,
    ...agreement,
    "",
    ...toSpeedTable(sides, speeds),
    ...toPlots(ours, peers, speeds),
    ...ours.flatMap((each) => toRatioTable(each, peers, speeds)),
    ...Array.from(parts, ([runtime, each]) => toPartsTable(runtime, each)).flat(),
  ].join("\n");
}

function describeModel(model: LoadedModel): string {
  return `${(model.parameterCount / 1e6).toFixed(1)} M parameters`;
}

/** Behind real prompts, since on random ones any two tokens may be nearly tied. */
async function agreementOf(side: EngineSide, other: EngineSide): Promise<string> {
  const prompts = GOLDEN.models["sluice-tiny"]?.prompts.map((prompt) => prompt.prompt_ids) ?? [];
  const fitting = prompts.filter(
    (prompt) => prompt.length + AGREEMENT_OUTPUT_TOKENS <= limitsOf(EXTENT).sequenceTokensMax,
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

/** One of our sides against the peers of its precision. */
function toRatioTable(side: EngineSide, peers: readonly EngineSide[], speeds: Speeds): string[] {
  const others = peers.filter(({ isInteger }) => isInteger === side.isInteger);
  if (others.length === 0) return [];
  const random = seededRandom(SEED);
  return [
    "",
    `| ${side.name} | ${others.map(({ name }) => `÷ ${name}`).join(" | ")} |`,
    `|---|${others.map(() => "---:|").join("")}`,
    ...Array.from(speeds, ([workload, bySide]) => {
      const speedsOf = (each: EngineSide) => bySide.get(each) ?? [];
      const cells = others.map((other) => {
        const { median, low, high } = speedRatioOf(speedsOf(side), speedsOf(other), random);
        return `${median.toFixed(2)} (${low.toFixed(2)}–${high.toFixed(2)})`;
      });
      return `| ${[workload.name, ...cells].join(" | ")} |`;
    }),
  ];
}

/** Our sides in int8, as users get them, against each peer with quantized weights. */
function toPlots(
  ours: readonly EngineSide[],
  peers: readonly EngineSide[],
  speeds: Speeds,
): string[] {
  const sides = ours.filter(({ isInteger, isDefault }) => isInteger && isDefault);
  const workloads = [...speeds.keys()].map(({ name }) => name.replace(" tokens", ""));
  const random = seededRandom(SEED);
  return peers
    .filter(({ isInteger }) => isInteger)
    .flatMap((peer) => {
      const plotted = sides.map((side) => ({
        name: side.name,
        ratios: [...speeds.values()].map((bySide) => {
          return speedRatioOf(bySide.get(side) ?? [], bySide.get(peer) ?? [], random).median;
        }),
      }));
      return ["", ...toRatioPlot(peer.name, workloads, plotted)];
    });
}

type Parts = ReadonlyMap<string, readonly number[]>;

function toPartsTable(runtime: string, parts: Parts): string[] {
  return [
    "",
    `| ms a step, int8, ${runtime} | ${STEP_PARTS.join(" | ")} |`,
    `|---|${STEP_PARTS.map(() => "---:|").join("")}`,
    ...Array.from(parts, ([name, ms]) => {
      return `| ${[name, ...ms.map((each) => each.toFixed(3))].join(" | ")} |`;
    }),
  ];
}

await runProgram({ flags: FLAGS, help: HELP, run: runBenchmark });
