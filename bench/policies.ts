import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { CommandFailure, WrongUse } from "../cli/command.ts";
import { countFlag, FLAG_HELP, flagSwitch, listFlag, parseWords } from "../cli/flags.ts";
import { KeptOutcomes } from "./support/kept-outcomes.ts";
import { CONTENDERS } from "./support/policy-contenders.ts";
import type { Contender, RunLength, Scenario } from "./support/policy-run.ts";
import { loadOf, LOADS, troubles } from "./support/policy-scenarios.ts";
import type { Row } from "./support/policy-table.ts";
import {
  headOf,
  isBetter,
  leftOf,
  pictureOf,
  rowOf,
  sectionOf,
  summaryOf,
} from "./support/policy-table.ts";
import { requireKnown } from "./support/require-known.ts";
import { runProgram } from "./support/run-program.ts";

const FLAGS = z.object({
  seeds: countFlag({ min: 1, max: 100, default: 20 }, "How many seeds each figure is over"),
  full: listFlag(
    "NAMES",
    "Experiments with all --seeds, where the others have --few; else all have",
  ),
  few: countFlag({ min: 1, max: 100, default: 5 }, "How many seeds those have that are not --full"),
  seconds: countFlag({ min: 2, max: 600, default: 6 }, "How long each run is measured"),
  only: listFlag("NAMES", "Of the experiments these alone; of all, by their names, see --list"),
  list: flagSwitch("Name the experiments and do nothing"),
  resume: z.string().min(1).optional().register(FLAG_HELP, {
    valueName: "FILE",
    meaning: "Keep what runs come to in this file, and go on from it",
  }),
  "minutes-max": countFlag({ min: 1, max: 600, default: 600 }, "With --resume: stop after so long"),
  table: z
    .enum(["policies", "policies-more"], "Expected policies or policies-more")
    .default("policies")
    .register(FLAG_HELP, {
      valueName: "NAME",
      meaning: "Which table of bench/results is written or checked (policies)",
    }),
  write: flagSwitch("Write the table and its picture, if it has several loads, to bench/results"),
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
/** By then what tenants may save up at first is spent at twice the load. */
const WARM_UP_MS = 12_000;
const TUNING_SEED = 1_001;
/** One alone would leave those that fail there with whatever was tried first. */
const TUNING_LOADS = [1, 2] as const;

/** A table as it is written, and its parts. */
interface Made {
  readonly text: string;
  /** Absent where there are no loads to compare. */
  readonly picture: string | undefined;
  readonly sections: readonly string[];
}

function runBenchmark(flags: Flags): string {
  if (flags.list) {
    const all = experimentsOf(flags.seconds * 1000);
    return all.map(({ id, name }) => `${id}: ${name}`).join("\n");
  }
  if (flags.check) return check(flags);
  const { text, picture } = make(flags);
  if (flags.write) {
    writeFileSync(join(FOLDER, `${flags.table}.md`), text);
    if (picture !== undefined) writeFileSync(join(FOLDER, `${flags.table}.svg`), picture);
  }
  return text;
}

/** Makes what is committed again, by the command that it names; with `--only` these of its sections alone. */
function check({ only, resume, table }: Flags): string {
  if (resume !== undefined) {
    throw new WrongUse("--check: Expected without --resume, which would check nothing");
  }
  const file = join(FOLDER, `${table}.md`);
  const committed = readFileSync(file, "utf8");
  const [, words] = /`npm run bench -- (.*) --write`/.exec(committed) ?? [];
  if (words === undefined) throw new CommandFailure(`${file} does not say how it was made`);
  const { values } = parseWords(words.split(" "), FLAGS, 0);
  const { text, picture, sections } = make({ ...values, only: only ?? values.only });
  const isSame =
    only === undefined
      ? committed === text && isCommitted(`${table}.svg`, picture)
      : sections.every((section) => committed.includes(section));
  if (!isSame) throw new CommandFailure(`${file} comes out otherwise`);
  return only === undefined
    ? "The committed table and its picture come out again, byte for byte"
    : "These sections of the committed table come out again, byte for byte";
}

function isCommitted(picture: string, made: string | undefined): boolean {
  return made === undefined || readFileSync(join(FOLDER, picture), "utf8") === made;
}

function experimentsOf(measuredMs: number): Scenario[] {
  return [...LOADS.map(loadOf), ...troubles({ warmUpMs: WARM_UP_MS, measuredMs })];
}

function make(flags: Flags): Made {
  const { seconds, only, full } = flags;
  const length = { warmUpMs: WARM_UP_MS, measuredMs: seconds * 1000 };
  const all = experimentsOf(length.measuredMs);
  const chosen = chosenOf(all, only);
  chosenOf(all, full);
  const kept = new KeptOutcomes(flags.resume, flags["minutes-max"]);
  const tuned = tune(kept, length);
  const rowsOf = new Map(
    chosen.map((scenario) => {
      console.error(scenario.name);
      const seeds = Array.from({ length: seedsOf(scenario, flags) }, (_, index) => index + 1);
      const rows = tuned.map((contender) =>
        rowOf(
          contender,
          seeds.map((seed) => kept.of(scenario, contender, { seed, length })),
        ),
      );
      return [scenario, rows];
    }),
  );
  const sections = [...rowsOf].map(([scenario, rows]) => sectionOf(scenario, rows).join("\n"));
  const picture = pictureOf(rowsOf);
  const head = headOf(commandOf(flags), {
    picture: picture === undefined ? undefined : `${flags.table}.svg`,
    tuned,
    tuningLoads: TUNING_LOADS,
    tuningSeed: TUNING_SEED,
    seconds,
    warmUpMs: WARM_UP_MS,
  });
  const left = leftOf(all.filter((scenario) => !chosen.includes(scenario)));
  return {
    text: [...head, ...summaryOf(rowsOf), ...sections, ...left, ""].join("\n"),
    picture,
    sections,
  };
}

function seedsOf({ id }: Scenario, { seeds, full, few }: Flags): number {
  return (full?.includes(id) ?? true) ? seeds : few;
}

function chosenOf(all: readonly Scenario[], wanted: readonly string[] | undefined): Scenario[] {
  requireKnown(
    wanted,
    all.map(({ id }) => id),
  );
  return all.filter(({ id }) => wanted?.includes(id) ?? true);
}

function commandOf({ seeds, seconds, only, full, few, table }: Flags): string {
  return [
    `--seeds ${seeds} --seconds ${seconds}`,
    ...(full === undefined ? [] : [`--full ${full.join(",")} --few ${few}`]),
    ...(only === undefined ? [] : [`--only ${only.join(",")}`]),
    ...(table === "policies" ? [] : [`--table ${table}`]),
  ].join(" ");
}

/** Of each policy the setting that is best over these loads, by the same measure as the table's. */
function tune(kept: KeptOutcomes, length: RunLength): Contender[] {
  const best = new Map<string, Row>();
  for (const contender of CONTENDERS) {
    const isAlone = CONTENDERS.filter(({ name }) => name === contender.name).length === 1;
    const outcomes = isAlone
      ? []
      : TUNING_LOADS.map((load) => kept.of(loadOf(load), contender, { seed: TUNING_SEED, length }));
    const row = rowOf(contender, outcomes);
    const before = best.get(contender.name);
    if (before === undefined || isBetter(row, before)) best.set(contender.name, row);
  }
  return [...best.values()].map(({ contender }) => contender);
}

await runProgram({ flags: FLAGS, help: HELP, run: runBenchmark });
