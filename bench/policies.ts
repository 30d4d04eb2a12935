import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { CommandFailure, WrongUse } from "../cli/command.ts";
import { countFlag, FLAG_HELP, flagSwitch, listFlag } from "../cli/flags.ts";
import { svgChart } from "../cli/report/svg-chart.ts";
import { seededRandom } from "../src/base/random.ts";
import { bootstrapInterval } from "../simulator/statistics.ts";
import { KeptOutcomes } from "./support/kept-outcomes.ts";
import { CONTENDERS, OURS } from "./support/policy-contenders.ts";
import type {
  Contender,
  RunLength,
  Scenario,
  SeedOutcome,
  TenantCounts,
} from "./support/policy-run.ts";
import { keptRatio } from "./support/policy-run.ts";
import { loadOf, LOADS, troubles } from "./support/policy-scenarios.ts";
import { runProgram } from "./support/run-program.ts";

const FLAGS = z.object({
  seeds: countFlag({ min: 1, max: 100, default: 20 }, "How many seeds each figure is over"),
  seconds: countFlag({ min: 2, max: 600, default: 6 }, "How long each run is measured"),
  only: listFlag("NAMES", "Of the experiments these alone; of all, by their names, see --list"),
  list: flagSwitch("Name the experiments and do nothing"),
  resume: z.string().min(1).optional().register(FLAG_HELP, {
    valueName: "FILE",
    meaning: "Keep what runs come to in this file, and go on from it",
  }),
  "minutes-max": countFlag({ min: 1, max: 600, default: 600 }, "With --resume: stop after so long"),
  write: flagSwitch("Write the table and its picture to bench/results"),
  check: flagSwitch(
    "Make the table again and fail where it is not what is committed, byte for byte",
  ),
});
type Flags = z.output<typeof FLAGS>;

const HELP = `Usage: npm run bench -- [flags]

Simulates a small pool under our core and under published policies: by load, and when something goes wrong. All
see the same requests, engines and reports. Each policy is tried with each of its settings on a seed of its own
and goes on with the best of them; ours has none. The same flags give the same bytes on every machine.`;

const FOLDER = join(import.meta.dirname, "results");
const FILE = join(FOLDER, "policies.md");
const PICTURE = join(FOLDER, "policies.svg");
/** By then what tenants may save up at first is spent at twice the load. */
const WARM_UP_MS = 12_000;
const TUNING_SEED = 1_001;
const TUNING_LOAD = 2;
const ACCEPTANCE_MIN = 0.999;

interface Row {
  readonly contender: Contender;
  readonly outcomes: readonly SeedOutcome[];
  readonly goodCostRatio: number;
  readonly acceptanceRatio: number;
}

function runBenchmark(flags: Flags): string {
  if (flags.check && flags.resume !== undefined) {
    throw new WrongUse("--check: Expected without --resume, which would check nothing");
  }
  const length = { warmUpMs: WARM_UP_MS, measuredMs: flags.seconds * 1000 };
  const all = [...LOADS.map(loadOf), ...troubles(length)];
  if (flags.list) return all.map(({ id, name }) => `${id}: ${name}`).join("\n");
  const scenarios = chosenOf(all, flags.only);
  const left = all.filter((scenario) => !scenarios.includes(scenario));
  const kept = new KeptOutcomes(flags.resume, flags["minutes-max"]);
  const tuned = tune(kept, length);
  const rowsOf = new Map(
    scenarios.map((scenario) => {
      console.error(scenario.name);
      const seeds = Array.from({ length: flags.seeds }, (_, index) => index + 1);
      const rows = tuned.map((contender) =>
        rowOf(
          contender,
          seeds.map((seed) => kept.of(scenario, contender, { seed, length })),
        ),
      );
      return [scenario, rows];
    }),
  );
  const sections = [...rowsOf].flatMap(([scenario, rows]) => sectionOf(scenario, rows));
  const text = [...headOf(flags, tuned), ...sections, ...leftOf(left), ""].join("\n");
  const picture = pictureOf(rowsOf);
  if (flags.write) {
    writeFileSync(FILE, text);
    writeFileSync(PICTURE, picture);
  }
  if (!flags.check) return text;
  for (const [file, made] of [
    [FILE, text],
    [PICTURE, picture],
  ] as const) {
    if (readFileSync(file, "utf8") !== made)
      throw new CommandFailure(`${file} comes out otherwise`);
  }
  return "The committed table and its picture come out again, byte for byte";
}

function chosenOf(all: readonly Scenario[], wanted: readonly string[] | undefined): Scenario[] {
  const unknown = wanted?.find((id) => !all.some((scenario) => scenario.id === id));
  if (unknown !== undefined) {
    const names = all.map(({ id }) => id).join(", ");
    throw new WrongUse(`--only: Expected of ${names}, found "${unknown}"`);
  }
  return all.filter(({ id }) => wanted?.includes(id) ?? true);
}

/** What the table does not have is said in it. */
function leftOf(left: readonly Scenario[]): string[] {
  if (left.length === 0) return [];
  return [
    "",
    "## Not run",
    "",
    "`--only` left these out; without it they are made as well:",
    "",
    ...left.map(({ id, name }) => `- \`${id}\`: ${name}`),
  ];
}

/** Of each policy the setting that is best at twice the load, by the same measure as the table's. */
function tune(kept: KeptOutcomes, length: RunLength): Contender[] {
  const best = new Map<string, Row>();
  for (const contender of CONTENDERS) {
    const isAlone = CONTENDERS.filter(({ name }) => name === contender.name).length === 1;
    const outcomes = isAlone
      ? []
      : [kept.of(loadOf(TUNING_LOAD), contender, { seed: TUNING_SEED, length })];
    const row = rowOf(contender, outcomes);
    const before = best.get(contender.name);
    if (before === undefined || isBetter(row, before)) best.set(contender.name, row);
  }
  return [...best.values()].map(({ contender }) => contender);
}

function rowOf(contender: Contender, outcomes: readonly SeedOutcome[]): Row {
  return {
    contender,
    outcomes,
    goodCostRatio: meanOf(outcomes.map((outcome) => outcome.goodCostRatio)),
    acceptanceRatio: acceptanceOf(outcomes),
  };
}

/** Who keeps what is guaranteed comes before who does not; then the good cost counts. */
function isBetter(a: Row, b: Row): boolean {
  const [keepsA, keepsB] = [a, b].map(({ acceptanceRatio }) => acceptanceRatio >= ACCEPTANCE_MIN);
  if (keepsA !== keepsB) return keepsA === true;
  return a.goodCostRatio > b.goodCostRatio;
}

function headOf(flags: Flags, tuned: readonly Contender[]): string[] {
  const only = flags.only === undefined ? "" : ` --only ${flags.only.join(",")}`;
  const knobs = tuned.filter(({ knob }) => knob !== "").map(({ name, knob }) => `${name} ${knob}`);
  return [
    "# Policies compared in simulation",
    "",
    `\`npm run bench -- --seeds ${flags.seeds} --seconds ${flags.seconds}${only} --write\` made this; \`--check\` instead of \`--write\` makes it again, byte for byte.`,
    "",
    "![good cost by load](policies.svg)",
    "",
    `- Three small engines (\`simulator/promises/small-pool.ts\`), three tenants; ${flags.seeds} seeds, ${flags.seconds} s each behind ${WARM_UP_MS / 1000} s of warm-up. 1× is what least outstanding just sustains.`,
    "- **good cost**: what requests that kept every target are worth, each by its own cost, as a part of all the pool's time; [95 % bootstrap interval over seeds].",
    "- **guaranteed work accepted**: of the work that was within a tenant's guarantee, reckoned from what it asked for alone and alike for all, how much of that tenant's was admitted.",
    "- Ranked by good cost among those that accept 99.9 % of it; the others stand below, and why is in that column.",
    "- Attainment is of what was admitted: 0 % good cost with 100 % accepted is a queue that is never in time.",
    `- Settings, chosen at ${TUNING_LOAD}× on seed ${TUNING_SEED} by the same measure: ${knobs.join("; ")}.`,
  ];
}

function sectionOf(scenario: Scenario, rows: readonly Row[]): string[] {
  const ranked = rows.toSorted((a, b) => (isBetter(a, b) ? -1 : isBetter(b, a) ? 1 : 0));
  const names = scenario.workload.tenants.map(({ profile }) => profile.name);
  const victims = names.filter((name) => name !== scenario.culprit);
  return [
    "",
    `## ${scenario.name}`,
    "",
    `| | good cost, % | guaranteed work accepted, % | attainment, % | ${names.map((name) => `${name}: attainment / refused / good of offered, %`).join(" | ")} |${scenario.culprit === undefined ? "" : " worst victim good, % |"}`,
    `|---|---:|---:|---:|${names.map(() => "---:|").join("")}${scenario.culprit === undefined ? "" : "---:|"}`,
    ...ranked.map((row) => {
      const { contender, outcomes, goodCostRatio, acceptanceRatio } = row;
      const tenants = names.map((_, index) => summed(outcomes, [index]));
      const all = summed(
        outcomes,
        names.map((_, index) => index),
      );
      const worst = Math.min(
        ...victims.map((name) => shareOf(tenants[names.indexOf(name)], "good", "offered")),
      );
      const cells = [
        `${percent(goodCostRatio)} ${intervalOf(outcomes)}`,
        `${percent(acceptanceRatio, 2)}${acceptanceRatio >= ACCEPTANCE_MIN ? "" : " ✗"}`,
        percent(shareOf(all, "good", "judged"), 2),
        ...tenants.map((tenant) =>
          [
            percent(shareOf(tenant, "good", "judged")),
            percent(shareOf(tenant, "refused", "offered")),
            percent(shareOf(tenant, "good", "offered")),
          ].join(" / "),
        ),
        ...(scenario.culprit === undefined ? [] : [percent(worst)]),
      ];
      return `| ${contender.name} | ${cells.join(" | ")} |`;
    }),
  ];
}

function pictureOf(rowsOf: ReadonlyMap<Scenario, readonly Row[]>): string {
  const byLoad = LOADS.flatMap((load) => {
    const found = [...rowsOf].find(([{ id }]) => id === loadOf(load).id);
    return found === undefined ? [] : [{ load, rows: found[1] }];
  });
  const names = byLoad[0]?.rows.map(({ contender }) => contender.name) ?? [];
  const { source } = svgChart({
    title: "Good cost by load",
    xLabel: "load, of what least outstanding sustains",
    yLabel: "%",
    series: names.map((name, index) => ({
      name: name === OURS ? "Sluice" : name,
      points: byLoad.map(({ load, rows }) => [load, 100 * (rows[index]?.goodCostRatio ?? NaN)]),
    })),
  });
  return source.replace(
    "<svg ",
    '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="11" ',
  );
}

function summed(outcomes: readonly SeedOutcome[], indexes: readonly number[]): TenantCounts {
  const counts = outcomes.flatMap(({ tenants }) =>
    indexes.flatMap((index) => tenants[index] ?? []),
  );
  const sum = (read: (each: TenantCounts) => number) =>
    counts.reduce((total, each) => total + read(each), 0);
  return {
    offered: sum(({ offered }) => offered),
    refused: sum(({ refused }) => refused),
    judged: sum(({ judged }) => judged),
    good: sum(({ good }) => good),
    goodCostMs: sum(({ goodCostMs }) => goodCostMs),
    admittedCostMs: sum(({ admittedCostMs }) => admittedCostMs),
    inProfileCostMs: sum(({ inProfileCostMs }) => inProfileCostMs),
  };
}

/** Seeds and tenants are counted one by one: what one got does not make up for what another did not. */
function acceptanceOf(outcomes: readonly SeedOutcome[]): number {
  return outcomes.length === 0 ? 1 : keptRatio(outcomes.flatMap(({ tenants }) => tenants));
}

function shareOf(
  counts: TenantCounts | undefined,
  part: keyof TenantCounts,
  whole: keyof TenantCounts,
): number {
  return counts === undefined || counts[whole] === 0 ? NaN : counts[part] / counts[whole];
}

function intervalOf(outcomes: readonly SeedOutcome[]): string {
  const ratios = outcomes.map(({ goodCostRatio }) => goodCostRatio);
  const { low, high } = bootstrapInterval(ratios, meanOf, seededRandom(1));
  return `[${percent(low)}, ${percent(high)}]`;
}

function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function percent(ratio: number, digits = 1): string {
  return Number.isFinite(ratio) ? (100 * ratio).toFixed(digits) : "–";
}

await runProgram({ flags: FLAGS, help: HELP, run: runBenchmark });
