import * as z from "zod";
import { countFlag, flagSwitch, listFlag } from "../cli/flags.ts";
import { hasNativePackage } from "../gpu-backend/engine/executor/native-package.ts";
import { loadModel } from "../gpu-backend/engine/model/load-model.ts";
import { BUNDLED_DRAFT, BUNDLED_MODEL } from "../gpu-backend/settings.ts";
import { seededRandom } from "../src/base/random.ts";
import { describeMachine } from "./support/machine.ts";
import { requireKnown } from "./support/require-known.ts";
import { runProgram } from "./support/run-program.ts";
import { openDraftModel, openMachine } from "./techniques/bench-engine.ts";
import { BATCHING } from "./techniques/batching.ts";
import { CHUNKED_PREFILL } from "./techniques/chunked.ts";
import { PAGING } from "./techniques/paging.ts";
import { PEERS } from "./techniques/peers.ts";
import { precisionSection } from "./techniques/precision.ts";
import { PREFIX } from "./techniques/prefix.ts";
import { toRowPlots } from "./techniques/row-plot.ts";
import type { Row, Section } from "./techniques/section.ts";
import { speculationSection } from "./techniques/speculation.ts";
import { measureStepCurve } from "./techniques/step-curve.ts";
import { SPLIT } from "./techniques/split.ts";
import { TIERS } from "./techniques/tiers.ts";

const FLAGS = z.object({
  only: listFlag("NAMES", "Only these techniques, by the first word of their titles"),
  on: listFlag("RUNTIMES", "Only on these runtimes: wasm, node"),
  repeats: countFlag({ min: 1, max: 1000, default: 9 }, "How often each figure is measured"),
  quick: flagSwitch("Measure each figure twice only"),
});
type Flags = z.output<typeof FLAGS>;

const HELP = `Usage: npm run bench:techniques -- [flags]

Measures what each technique of the engine buys, switched on against off, in every runtime that is
installed. Prints Markdown. Sides take turns; all times are CPU time of this process; figures are medians
with intervals of 95 %.`;

const QUICK_REPEATS = 2;
const SEED = 10;
const BLOCK_COUNT = 1024;
/** A whole long prompt fits into a step where a technique wants it to. */
const BATCH_TOKENS_MAX = 2048;

/** For sections that predict nothing. */
const NO_CURVE = { predictMs: () => Number.NaN };

const WASM_WAYS = [{ name: "int8, wasm", precision: "int8", runtime: "wasm" }] as const;
const WAYS = [...WASM_WAYS, { name: "f32, node", precision: "f32", runtime: "node" }] as const;

const NAMES = [
  ...[BATCHING, PAGING, PREFIX, CHUNKED_PREFILL, TIERS, PEERS, SPLIT].map(nameOf),
  "speculation",
  "precision",
];

async function runBenchmark(flags: Flags): Promise<string> {
  requireKnown(flags.only, NAMES);
  requireKnown(
    flags.on,
    WAYS.map(({ runtime }) => runtime),
  );
  // A section as soon as it is measured: all of them take most of an hour.
  print(["# What each technique buys", "", `\`${commandOf(flags)}\``, "", describeMachine()]);
  const random = seededRandom(SEED);
  const repeats = flags.quick ? QUICK_REPEATS : flags.repeats;
  const [model, draft] = await Promise.all([loadModel(BUNDLED_MODEL), loadModel(BUNDLED_DRAFT)]);
  const ways = hasNativePackage() ? WAYS : WASM_WAYS;
  for (const { name, ...way } of ways.filter(
    ({ runtime }) => flags.on?.includes(runtime) ?? true,
  )) {
    const common = { model, ...way, blockCount: BLOCK_COUNT, batchTokensMax: BATCH_TOKENS_MAX };
    const machine = await openMachine(name, common);
    const other =
      way.precision === "int8"
        ? await openMachine(`f32, ${way.runtime}`, { ...common, precision: "f32" })
        : undefined;
    const draftModel = await openDraftModel({ model: draft, ...way, blockCount: BLOCK_COUNT });
    const all = [
      BATCHING,
      PAGING,
      PREFIX,
      CHUNKED_PREFILL,
      speculationSection(draftModel),
      TIERS,
      PEERS,
      SPLIT,
      ...(other === undefined ? [] : [precisionSection(other)]),
    ];
    const sections = all.filter((section) => flags.only?.includes(nameOf(section)) ?? true);
    const isPredicted = sections.some(({ predicts }) => predicts);
    const curve = isPredicted ? await measureStepCurve(machine) : NO_CURVE;
    for (const section of sections) {
      const rows = await section.measure({ machine, curve, repeats, random });
      print(["", ...toTable(section, name, rows)]);
    }
    await Promise.all([machine.executor.close(), other?.executor.close()]);
  }
  return "";
}

function print(lines: readonly string[]): void {
  process.stdout.write(`${lines.join("\n")}\n`);
}

/** As a command line names it. */
function nameOf({ title }: Pick<Section, "title">): string {
  return title.toLowerCase().replace(/ .*/u, "");
}

function commandOf({ only, on, repeats, quick }: Flags): string {
  return [
    "npm run bench:techniques --",
    ...(only === undefined ? [] : [`--only ${only.join(",")}`]),
    ...(on === undefined ? [] : [`--on ${on.join(",")}`]),
    quick ? "--quick" : `--repeats ${repeats}`,
  ].join(" ");
}

function toTable(section: Section, machine: string, rows: readonly Row[]): string[] {
  return [
    `## ${section.title} (${machine})`,
    "",
    `Published: ${section.published}.`,
    `Measured: ${section.how}.`,
    "",
    "| | ours | the step curve says |",
    "|---|---:|---:|",
    ...rows.map(({ what, ours, predicted = "" }) => `| ${what} | ${ours} | ${predicted} |`),
    ...toRowPlots(section.title, rows),
    "",
    `Why they differ: ${section.why}.`,
  ];
}

await runProgram({ flags: FLAGS, help: HELP, run: runBenchmark });
