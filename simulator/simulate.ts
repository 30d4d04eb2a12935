import { parseArgs } from "node:util";
import { ChaoticWorld } from "./chaotic-world.ts";
import { runExperiment, sustainableBasisOf } from "./experiment.ts";
import type { HardwareProfile } from "./hardware-profile.ts";
import { PROFILES } from "./hardware-profile.ts";
import type { Policy } from "./policies/policy.ts";
import type { PolicyName } from "./policies/reference-policies.ts";
import { REFERENCE_POLICIES } from "./policies/reference-policies.ts";
import type { Score } from "./scorecard.ts";
import { requestRates, steady } from "./workloads/scenarios.ts";
import type { Workload } from "./workloads/workload.ts";

const HELP = `Usage: npm run simulate -- [flags]

Runs one simulation of one seed and prints how each tenant fared. The same flags give the same
numbers on every machine.

  --seed N        which history (1)
  --chaos         a small world in which everything goes wrong, its laws checked after every event;
                  of the other flags only --seed counts
  --minutes N     measured, after half a minute of warm-up (2)
  --load N        1 is what least-outstanding just sustains (1)
  --policy NAME   sluice, or ${Object.keys(REFERENCE_POLICIES).join(", ")} (sluice)
  --limit N       requests on one replica under concurrency-limit (100)
  --replicas N    (8)
  --profile NAME  ${Object.keys(PROFILES).join(", ")} (llama-8b-h200)
  --help
`;

const WARM_UP_MS = 30_000;
const COLUMNS: readonly string[] = [
  "tenant",
  "offered",
  "good",
  "attainment",
  "in profile accepted",
  "good cost",
  "TTFT p50",
  "TTFT p99",
  "TPOT p99",
  "missed",
];

main(process.argv.slice(2));

function main(argv: string[]): void {
  const values = readFlags(argv);
  if (values.help) {
    process.stdout.write(HELP);
    return;
  }
  const seed = positive("seed", values.seed);
  if (values.chaos) {
    printChaos(seed);
    return;
  }
  const profile = oneOf("profile", PROFILES, values.profile);
  const profiles = Array.from({ length: positive("replicas", values.replicas) }, () => profile);
  const loadRatio = positive("load", values.load);
  const basis = sustainableBasisOf(profiles);
  const workload = steady(basis, { loadRatio });
  const measuredMs = positive("minutes", values.minutes) * 60_000;
  const settings = { workload, profiles, limit: positive("limit", values.limit) };
  const createPolicy = policyOf(values.policy, settings);
  const { scorecard } = runExperiment({
    seed,
    profiles,
    workload,
    warmUpMs: WARM_UP_MS,
    measuredMs,
    ...(createPolicy !== undefined && { createPolicy }),
  });
  const capacityMs = (basis.capacityPerSecond * measuredMs) / 1000;
  printScores([...scorecard.tenants, scorecard.total], capacityMs);
}

function readFlags(argv: string[]) {
  try {
    return parseArgs({
      args: argv,
      options: {
        seed: { type: "string", default: "1" },
        chaos: { type: "boolean", default: false },
        minutes: { type: "string", default: "2" },
        load: { type: "string", default: "1" },
        policy: { type: "string", default: "sluice" },
        limit: { type: "string", default: "100" },
        replicas: { type: "string", default: "8" },
        profile: { type: "string", default: "llama-8b-h200" },
        help: { type: "boolean", default: false },
      },
    }).values;
  } catch (error) {
    return fail(`${error instanceof Error ? error.message : String(error)}\n\n${HELP}`);
  }
}

function printChaos(seed: number): void {
  const world = new ChaoticWorld(seed);
  world.run();
  for (const line of world.history) process.stdout.write(`${line}\n`);
}

/** The policy of a name; `undefined` is the real core. */
function policyOf(
  name: string,
  settings: {
    readonly workload: Workload;
    readonly profiles: readonly HardwareProfile[];
    readonly limit: number;
  },
): (() => Policy) | undefined {
  if (name === "sluice") return undefined;
  const create = oneOf<(typeof REFERENCE_POLICIES)[PolicyName]>("policy", REFERENCE_POLICIES, name);
  const { workload, profiles, limit } = settings;
  const requestsPerMs = requestRates(
    sustainableBasisOf(profiles),
    workload.tenants.map(({ profile }) => profile),
  );
  const initialLimit = limit * profiles.length;
  return () => create({ requestsPerMs, outstandingMax: limit, initialLimit });
}

function printScores(scores: readonly Score[], capacityMs: number): void {
  const rows = [COLUMNS, ...scores.map((score) => cellsOf(score, capacityMs))];
  const widths = COLUMNS.map((_, column) =>
    Math.max(...rows.map((cells) => cells[column]?.length ?? 0)),
  );
  for (const cells of rows) {
    const line = cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ");
    process.stdout.write(`${line.trimEnd()}\n`);
  }
}

function cellsOf({ name, counts, goodput, ttftMs, tpotMs }: Score, capacityMs: number): string[] {
  const missed = Object.entries(counts.missedBy).filter(([, count]) => count > 0);
  return [
    name,
    String(counts.offered),
    String(counts.good),
    goodput.admittedAttainmentRatio?.toFixed(4) ?? "-",
    goodput.inProfileAcceptanceRatio?.toFixed(4) ?? "-",
    (counts.goodCostMs / capacityMs).toFixed(3),
    ttftMs.quantile(0.5)?.toFixed(0) ?? "-",
    ttftMs.quantile(0.99)?.toFixed(0) ?? "-",
    tpotMs.quantile(0.99)?.toFixed(1) ?? "-",
    missed.map(([metric, count]) => `${metric} ${count}`).join(", "),
  ];
}

function positive(flag: string, text: string): number {
  const value = Number(text);
  if (value > 0 && Number.isFinite(value)) return value;
  return fail(`Expected --${flag} to be a positive number, found ${text}`);
}

function oneOf<Value>(flag: string, table: Readonly<Record<string, Value>>, name: string): Value {
  const found = Object.hasOwn(table, name) ? table[name] : undefined;
  if (found !== undefined) return found;
  return fail(`Expected --${flag} to be one of ${Object.keys(table).join(", ")}, found ${name}`);
}

function fail(message: string): never {
  process.stderr.write(`${message}\n`);
  process.exit(2);
}
