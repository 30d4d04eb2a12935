import * as z from "zod";
import { countFlag, flagSwitch, listFlag } from "../cli/flags.ts";
import { hasNativePackage } from "../gpu-backend/engine/executor/native-package.ts";
import { loadModel } from "../gpu-backend/engine/model/load-model.ts";
import { BUNDLED_DRAFT, BUNDLED_MODEL } from "../gpu-backend/settings.ts";
import { seededRandom } from "../src/base/random.ts";
import { describeMachine } from "./support/machine.ts";
import { runProgram } from "./support/run-program.ts";
import { openDraftModel, openMachine } from "./techniques/bench-engine.ts";
import { BATCHING } from "./techniques/batching.ts";
import { CHUNKED_PREFILL } from "./techniques/chunked.ts";
import { PAGING } from "./techniques/paging.ts";
import { precisionSection } from "./techniques/precision.ts";
import { PREFIX } from "./techniques/prefix.ts";
import type { Row, Section } from "./techniques/section.ts";
import { speculationSection } from "./techniques/speculation.ts";
import { measureStepCurve } from "./techniques/step-curve.ts";
import { TIERS } from "./techniques/tiers.ts";

const FLAGS = z.object({
  only: listFlag("NAMES", "Only these techniques, by the first word of their titles"),
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

async function runBenchmark(flags: Flags): Promise<string> {
  const lines = [
    "# What each technique buys",
    "",
    `\`npm run bench:techniques\``,
    "",
    describeMachine(),
  ];
  const random = seededRandom(SEED);
  const repeats = flags.quick ? QUICK_REPEATS : flags.repeats;
  const [model, draft] = await Promise.all([loadModel(BUNDLED_MODEL), loadModel(BUNDLED_DRAFT)]);
  for (const { name, ...way } of hasNativePackage() ? WAYS : WASM_WAYS) {
    const common = { model, ...way, blockCount: BLOCK_COUNT, batchTokensMax: BATCH_TOKENS_MAX };
    const machine = await openMachine(name, common);
    const other = await openMachine(`f32, ${way.runtime}`, { ...common, precision: "f32" });
    const draftModel = await openDraftModel({ model: draft, ...way, blockCount: BLOCK_COUNT });
    const all = [
      BATCHING,
      PAGING,
      PREFIX,
      CHUNKED_PREFILL,
      speculationSection(draftModel),
      TIERS,
      ...(way.precision === "int8" ? [precisionSection(other)] : []),
    ];
    const sections = all.filter(({ title }) => isWanted(title, flags.only));
    const isPredicted = sections.some(({ predicts }) => predicts);
    const curve = isPredicted ? await measureStepCurve(machine) : NO_CURVE;
    for (const section of sections) {
      const rows = await section.measure({ machine, curve, repeats, random });
      lines.push("", ...toTable(section, name, rows));
      process.stderr.write(`${section.title} (${name})\n`);
    }
    await Promise.all([machine.executor.close(), other.executor.close()]);
  }
  return lines.join("\n");
}

function isWanted(title: string, only: readonly string[] | undefined): boolean {
  const [word = ""] = title.toLowerCase().split(" ");
  return only === undefined || only.includes(word);
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
    "",
    `Why they differ: ${section.why}.`,
  ];
}

await runProgram({ flags: FLAGS, help: HELP, run: runBenchmark });
