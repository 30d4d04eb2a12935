import * as z from "zod";
import { countFlag, flagSwitch } from "../cli/flags.ts";
import { assert } from "../src/base/assert.ts";
import type { Crowd } from "./support/crowded-pool.ts";
import { CrowdedPool } from "./support/crowded-pool.ts";
import { describeMachine } from "./support/machine.ts";
import { runProgram } from "./support/run-program.ts";
import { quantileOf } from "../simulator/statistics.ts";

const FLAGS = z.object({
  repeats: countFlag({ min: 1, max: 1000, default: 30 }, "How often each figure is measured"),
  quick: flagSwitch("Measure each figure three times only"),
});
type Flags = z.output<typeof FLAGS>;

const HELP = `Usage: npm run bench:decision -- [flags]

Measures what one decision of a pool costs, by how many replicas there are and how many requests wait
while all slots are taken. All sizes take turns in one run, so that a disturbance hits all of them,
and figures are medians of the processor time that was given. Prints Markdown.`;

const REPLICAS = [1, 8, 32, 128];
const QUICK_REPEATS = 3;
const WARM_UP_REPEATS = 5;
/** Calls that one sample is the mean of, since the clock reads whole microseconds. */
const CALLS = 64;

interface Action {
  readonly name: string;
  /** How full the pools are that it happens in. */
  readonly crowds: readonly Crowd[];
  run(pool: CrowdedPool): void;
  /** What is not measured: makes the pool what it was. */
  restore(pool: CrowdedPool): void;
}

const HALF_TAKEN = crowdsOf([0], 0.5);
const ALL_TAKEN = crowdsOf([10, 100, 1_000, 10_000], 1);

const ACTIONS: readonly Action[] = [
  {
    name: "a request comes and is sent, half of the slots being free",
    crowds: HALF_TAKEN,
    run: (pool) => void pool.offer(),
    restore: (pool) => pool.end(),
  },
  {
    name: "a request comes, waits, and gives up",
    crowds: ALL_TAKEN,
    run: (pool) => pool.withdraw(pool.offer()),
    restore: () => undefined,
  },
  {
    name: "a request ends and one that waits is served",
    crowds: ALL_TAKEN,
    run: (pool) => pool.end(),
    restore: (pool) => void pool.offer(),
  },
  {
    name: "a replica reports while others wait",
    crowds: ALL_TAKEN,
    run: (pool) => pool.report(),
    restore: () => undefined,
  },
];

/** Microseconds a call, by action and crowd. */
type Samples = ReadonlyMap<Action, ReadonlyMap<Crowd, number[]>>;

function crowdsOf(waitingCounts: readonly number[], takenRatio: number): readonly Crowd[] {
  return REPLICAS.flatMap((replicaCount) =>
    waitingCounts.map((waiting) => ({ replicaCount, waiting, takenRatio })),
  );
}

function runBenchmark(flags: Flags): string {
  const machine = describeMachine();
  const repeats = flags.quick ? QUICK_REPEATS : flags.repeats;
  const pools = new Map(
    [...HALF_TAKEN, ...ALL_TAKEN].map((crowd) => [crowd, new CrowdedPool(crowd)]),
  );
  const samples = new Map(
    ACTIONS.map((action) => [
      action,
      new Map(action.crowds.map((crowd): [Crowd, number[]] => [crowd, []])),
    ]),
  );
  for (let repeat = -WARM_UP_REPEATS; repeat < repeats; repeat += 1) {
    for (const [action, byCrowd] of samples) {
      for (const [crowd, costsUs] of byCrowd) {
        const pool = pools.get(crowd);
        assert(pool !== undefined, "every crowd has its pool");
        const costUs = measureUs(action, pool);
        if (repeat >= 0) costsUs.push(costUs);
      }
    }
  }
  for (const pool of pools.values()) pool.checkInvariants();
  return [
    "# What a decision costs",
    "",
    `\`npm run bench:decision -- --repeats ${repeats}\``,
    "",
    machine,
    `- ${repeats} samples of ${CALLS} calls each, by processor time`,
    ...ACTIONS.flatMap((action) => ["", `## When ${action.name}`, "", ...toTable(samples, action)]),
  ].join("\n");
}

function measureUs(action: Action, pool: CrowdedPool): number {
  let totalUs = 0;
  for (let call = 0; call < CALLS; call += 1) {
    const atStart = process.cpuUsage();
    action.run(pool);
    const { user, system } = process.cpuUsage(atStart);
    totalUs += user + system;
    action.restore(pool);
  }
  return totalUs / CALLS;
}

/** A line for each number of replicas, with how it grows from a hundred that wait to ten thousand. */
function toTable(samples: Samples, action: Action): string[] {
  const waitingCounts = [...new Set(action.crowds.map(({ waiting }) => waiting))];
  const medianUs = (replicaCount: number, waiting: number): number => {
    const crowd = action.crowds.find(
      (each) => each.replicaCount === replicaCount && each.waiting === waiting,
    );
    const costsUs = crowd === undefined ? undefined : samples.get(action)?.get(crowd);
    return quantileOf(costsUs ?? [], 0.5);
  };
  const growsBy = waitingCounts.length > 1 ? ["100 → 10,000"] : [];
  const lines = REPLICAS.map((replicaCount) => {
    const medians = waitingCounts.map((waiting) => medianUs(replicaCount, waiting).toFixed(0));
    const growth = growsBy.map(
      () => `${(medianUs(replicaCount, 10_000) / medianUs(replicaCount, 100)).toFixed(2)}×`,
    );
    return `| ${[replicaCount, ...medians, ...growth].join(" | ")} |`;
  });
  const columns = waitingCounts.map((waiting) => `${waiting.toLocaleString("en")} wait`);
  return [
    `| µs, replicas | ${[...columns, ...growsBy].join(" | ")} |`,
    `|---:|${[...columns, ...growsBy].map(() => "---:|").join("")}`,
    ...lines,
  ];
}

await runProgram({ flags: FLAGS, help: HELP, run: runBenchmark });
