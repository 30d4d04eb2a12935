import * as z from "zod";
import { countFlag, flagSwitch } from "../cli/flags.ts";
import { sustainableBasisOf } from "../simulator/experiment.ts";
import type { HardwareProfile } from "../simulator/hardware-profile.ts";
import { LLAMA_8B_H200, slowed } from "../simulator/hardware-profile.ts";
import { burst, noisyNeighbour, priceMixDrift, steady } from "../simulator/workloads/scenarios.ts";
import { describeMachine } from "./support/machine.ts";
import type { Contender, RunLength, Scenario, Standing } from "./support/policy-run.ts";
import { standingOf } from "./support/policy-run.ts";
import { runProgram } from "./support/run-program.ts";

const FLAGS = z.object({
  seeds: countFlag({ min: 1, max: 100, default: 3 }, "How many seeds each figure is summed over"),
  quick: flagSwitch("One seed, half a minute each, and only the contenders that differ most"),
});
type Flags = z.output<typeof FLAGS>;

const HELP = `Usage: npm run bench:policies -- [flags]

Simulates eight replicas under our core and under published policies: by load, and when something goes
wrong. All see the same requests. The same flags give the same numbers on every machine. Prints Markdown.`;

const FULL: Omit<RunLength, "seeds"> = { warmUpMs: 60_000, measuredMs: 240_000 };
const QUICK: RunLength = { seeds: 1, warmUpMs: 25_000, measuredMs: 25_000 };
const REPLICAS = 8;
/** Longer than any run. */
const LASTS_MS = 3_600_000;

const CONTENDERS: readonly Contender[] = [
  { name: "round robin", policy: "round-robin" },
  { name: "least outstanding", policy: "least-outstanding" },
  { name: "two choices", policy: "two-choices" },
  { name: "cache-aware (SGLang)", policy: "cache-aware" },
  { name: "AIMD limit", policy: "aimd-limit" },
  { name: "saturation shed (llm-d)", policy: "saturation-shed" },
  { name: "requests per minute, exact by cost", policy: "rate-bucket" },
  ...[60, 80, 100, 120, 140].map((outstandingMax): Contender => ({
    name: `at most ${outstandingMax} on each`,
    policy: "concurrency-limit",
    outstandingMax,
  })),
  { name: "**Sluice**", policy: "sluice" },
];
const QUICK_NAMES = new Set(["least outstanding", "at most 140 on each", "**Sluice**"]);
const REFERENCE = "least outstanding";

const LOADS = [0.8, 1, 1.25, 1.5, 2, 3];
const QUICK_LOADS = [1, 1.5, 2, 3];

interface Figure {
  readonly name: string;
  /** `reference` is what least-outstanding did at a load of 1. */
  readonly of: (standing: Standing, reference: Standing) => string;
}

const percent = (ratio: number | undefined) =>
  ratio === undefined ? "–" : (100 * ratio).toFixed(2);

const FIGURES: readonly Figure[] = [
  {
    name: "Attainment of what was admitted, %",
    of: ({ goodput }) => percent(goodput.admittedAttainmentRatio),
  },
  {
    name: "The same of the tenant that fared worst, %",
    of: ({ worstAttainmentRatio }) => percent(worstAttainmentRatio),
  },
  {
    name: "Accepted of what was in profile, %",
    of: ({ goodput }) => percent(goodput.inProfileAcceptanceRatio),
  },
  { name: "Good requests a second", of: ({ goodput }) => goodput.goodPerSecond.toFixed(0) },
  {
    name: "Good by each request's own cost, of least outstanding at 1×",
    of: ({ goodCostMs }, reference) => (goodCostMs / reference.goodCostMs).toFixed(2),
  },
  {
    name: "Good by each tenant's mean cost, of least outstanding at 1×",
    of: ({ goodMeanCostMs }, reference) => (goodMeanCostMs / reference.goodMeanCostMs).toFixed(2),
  },
];

function poolOf(profile: HardwareProfile = LLAMA_8B_H200): HardwareProfile[] {
  return Array.from({ length: REPLICAS }, () => profile);
}

function steadyAt(loadRatio: number): Scenario {
  const profiles = poolOf();
  const workload = steady(sustainableBasisOf(profiles), { loadRatio });
  return { name: `${loadRatio}×`, profiles, workload };
}

/** What may go wrong, most of it while there is room to spare. */
function troubles({ warmUpMs, measuredMs }: RunLength): Scenario[] {
  const profiles = poolOf();
  const basis = sustainableBasisOf(profiles);
  const fromMs = warmUpMs;
  const untilMs = warmUpMs + measuredMs / 4;
  const always = { atMs: fromMs, forMs: LASTS_MS } as const;
  const slow = poolOf(slowed(LLAMA_8B_H200, 2.5));
  const mixed = [...profiles.slice(REPLICAS / 2), ...slow.slice(REPLICAS / 2)];
  return [
    {
      name: "code asks for 8 times its part, all others 0.7×",
      profiles,
      culprit: "code",
      workload: noisyNeighbour(basis, { loadRatio: 0.7, tenant: "code", factor: 8 }),
    },
    {
      name: "chat-tight's prompts become 10 times as long at 0.9×",
      profiles,
      culprit: "chat-tight",
      workload: priceMixDrift(basis, {
        loadRatio: 0.9,
        tenant: "chat-tight",
        fromMs,
        promptFactor: 10,
      }),
    },
    {
      name: "chat asks for 6 times its part for a quarter of the time, at 0.7×",
      profiles,
      culprit: "chat",
      workload: burst(basis, { loadRatio: 0.7, tenant: "chat", fromMs, untilMs, factor: 6 }),
    },
    {
      name: "one replica becomes 3 times slower, at 0.75×",
      profiles,
      workload: steady(basis, { loadRatio: 0.75 }),
      faults: [{ kind: "slow", ratio: 3, replicaIndex: 0, ...always }],
    },
    {
      name: "two of eight die for a third of the time, at 0.85×",
      profiles,
      workload: steady(basis, { loadRatio: 0.85 }),
      faults: [0, 1].map((replicaIndex) => ({
        kind: "restarted",
        replicaIndex,
        atMs: fromMs,
        forMs: measuredMs / 3,
      })),
    },
    {
      name: "four replicas are 2.5 times slower than four others, at 0.9×",
      profiles: mixed,
      workload: steady(sustainableBasisOf(mixed), { loadRatio: 0.9 }),
    },
  ];
}

function runBenchmark(flags: Flags): string {
  const machine = describeMachine();
  const length = flags.quick ? QUICK : { ...FULL, seeds: flags.seeds };
  const contenders = CONTENDERS.filter(({ name }) => !flags.quick || QUICK_NAMES.has(name));
  const loads = flags.quick ? QUICK_LOADS : LOADS;
  const byLoad = new Map(
    contenders.map((contender) => [
      contender,
      loads.map((load) => standingOf(steadyAt(load), contender, length)),
    ]),
  );
  const reference = byLoad.get(contenderNamed(REFERENCE))?.[loads.indexOf(1)];
  if (reference === undefined) throw new RangeError("Expected the reference among the contenders");
  const command = flags.quick ? "--quick" : `--seeds ${flags.seeds}`;
  return [
    "# Policies compared in simulation",
    "",
    `\`npm run bench:policies -- ${command}\``,
    "",
    machine,
    `- eight replicas \`${LLAMA_8B_H200.name}\`, six tenants; ${length.seeds} seed(s), ${length.measuredMs / 1000} s each behind ${length.warmUpMs / 1000} s of warm-up`,
    "- 1× is the load where least outstanding still keeps about 99 % in time; who has no guarantees counts all as in profile",
    ...FIGURES.flatMap((figure) => [
      "",
      `## ${figure.name}`,
      "",
      ...toLoadTable(figure, reference),
    ]),
    "",
    "## When something goes wrong",
    "",
    "Attainment of what was admitted, % / least part of what a tenant not to blame offered that was good, % / good requests a second.",
    "",
    ...toTroubleTable(),
  ].join("\n");

  function toLoadTable({ of }: Figure, atOne: Standing): string[] {
    return [
      `| | ${loads.map((load) => `${load}×`).join(" | ")} |`,
      `|---|${loads.map(() => "---:|").join("")}`,
      ...[...byLoad].map(([{ name }, standings]) => {
        const cells = standings.map((standing) => of(standing, atOne));
        return `| ${name} | ${cells.join(" | ")} |`;
      }),
    ];
  }

  function toTroubleTable(): string[] {
    return [
      `| | ${contenders.map(({ name }) => name).join(" | ")} |`,
      `|---|${contenders.map(() => "---:|").join("")}`,
      ...troubles(length).map((trouble) => {
        const cells = contenders.map((contender) => {
          const { goodput, worstVictimRatio } = standingOf(trouble, contender, length);
          const { admittedAttainmentRatio, goodPerSecond } = goodput;
          return `${percent(admittedAttainmentRatio)} / ${percent(worstVictimRatio)} / ${goodPerSecond.toFixed(0)}`;
        });
        return `| ${trouble.name} | ${cells.join(" | ")} |`;
      }),
    ];
  }
}

function contenderNamed(name: string): Contender {
  const found = CONTENDERS.find((contender) => contender.name === name);
  if (found === undefined) throw new RangeError(`Expected a contender named ${name}`);
  return found;
}

await runProgram({ flags: FLAGS, help: HELP, run: runBenchmark });
