import * as z from "zod";
import { readTrace } from "../read-trace.ts";
import { PROFILES, sequenceTokensMax } from "../../simulator/hardware-profile.ts";
import type { Command, Terminal } from "../command.ts";
import { EXIT_CODES, WrongUse } from "../command.ts";
import { countFlag, FLAG_HELP, flagSwitch, parseWords, toHelpLines } from "../flags.ts";
import { planPool } from "../plan/plan-pool.ts";
import type { PlanOptions, PlanProgress } from "../plan/plan-pool.ts";
import {
  ofTenants,
  plannedTenants,
  tenantsOfPool,
  tracedTenants,
} from "../plan/planned-tenants.ts";
import { findProfile } from "../plan/profile-file.ts";
import { notSimulated } from "../plan/not-simulated.ts";
import { planPage, reportPlan } from "../plan/report-plan.ts";
import { smallestPool } from "../plan/smallest-pool.ts";
import { LENGTHS, readTraffic } from "../plan/traffic-file.ts";
import { keyHasher, requireConfigurationFile } from "../read-configuration.ts";
import { requireWritable, writeResult } from "../result-file.ts";

const REPLICAS_MAX = 1_024;

const FLAGS = z.object({
  traffic: z.string().min(1).optional().register(FLAG_HELP, {
    valueName: "FILE",
    meaning: "What each tenant will ask for: see below",
  }),
  trace: z.string().min(1).optional().register(FLAG_HELP, {
    valueName: "FILE",
    meaning: "A recorded trace instead (Azure, Mooncake, Bailian or VTC; .gz too)",
  }),
  speed: z
    .string()
    .regex(/^\d+(\.\d+)?$/, "Expected a number above 0")
    .transform(Number)
    .refine((speed) => speed > 0, "Expected a number above 0")
    .optional()
    .register(FLAG_HELP, { valueName: "N", meaning: "Play the trace so many times as fast (1)" }),
  profile: z.string().min(1).default("llama-8b-h200").register(FLAG_HELP, {
    valueName: "NAME",
    meaning: "What the replicas are: a name below, or a file of sluice calibrate (llama-8b-h200)",
  }),
  pool: z.string().min(1).optional().register(FLAG_HELP, {
    valueName: "NAME",
    meaning: "The pool to plan (the only one)",
  }),
  replicas: z
    .string()
    .regex(/^\d{1,4}(\.\.\d{1,4})?$/, "Expected a number of replicas, or a range such as 1..32")
    .transform((text) => text.split("..").map(Number))
    .refine(
      ([min = 0, max = min]) => min >= 1 && max >= min && max <= REPLICAS_MAX,
      `Expected 1 to ${REPLICAS_MAX} replicas, of a range the smaller number first`,
    )
    .default([1, 32])
    .register(FLAG_HELP, {
      valueName: "A..B",
      meaning: "Find the smallest pool among these; one number plans that one alone (1..32)",
    }),
  refused: z
    .string()
    .regex(/^(0|0?\.\d+)$/, "Expected a share such as 0.001")
    .transform(Number)
    .default(0.001)
    .register(FLAG_HELP, {
      valueName: "N",
      meaning: "So much of a tenant's requests may be refused (0.001)",
    }),
  seconds: countFlag({ min: 5, max: 86_400, default: 60 }, "Seconds that count of each run"),
  "warm-up": countFlag({ min: 0, max: 3_600, default: 20 }, "Seconds before them that do not"),
  seeds: countFlag({ min: 1, max: 100, default: 2 }, "Runs of each size, each of its own chance"),
  html: z.string().min(1).optional().register(FLAG_HELP, {
    valueName: "FILE",
    meaning: "Write the plan with pictures: one page that needs nothing else",
  }),
  json: flagSwitch("Print the plan as one JSON object"),
});
type Flags = z.output<typeof FLAGS>;

/** `sluice plan`: finds the smallest pool that keeps every promise. */
export const planCommand: Command = {
  name: "plan",
  synopsis: "FILE (--traffic FILE | --trace FILE) [flags]",
  summary: "Find the smallest pool that keeps every promise of a configuration",
  help: `Simulates the pool of a configuration FILE under expected or recorded traffic: the gateway's own core and the
scheduler of our engine in virtual time, over modelled GPUs. Tells for each size what share of a tenant's requests
is in time, how many are refused, and which pool is the smallest that keeps every promise: as much in time as the
tenant's class says, and no more refused than --refused.

${toHelpLines(FLAGS)}

Traffic is YAML, requests a second and lengths of each tenant:
  tenants:
    acme:   { rate: 12, lengths: chat, burstiness: 0.5, shared_prompt: 0.4 }
    globex: { rate: 3, prompt_tokens: 500..4000, output_tokens: 200 }
Lengths of real requests: ${Object.keys(LENGTHS).join(", ")}

Profiles, from what was published of real engines (sluice calibrate measures yours):
${profileLines()}

Limits of tenants and weights of replicas are not simulated. Pools of more than 16 are planned as cells. A prompt that no replica has room
for is refused; an answer ends where its replica has no room for more. Exit code 1: no pool keeps every promise, or a
tenant with traffic offered nothing in the seconds that count.`,
  run: runPlan,
};

function profileLines(): string {
  const width = Math.max(...Object.keys(PROFILES).map((name) => name.length)) + 2;
  return Object.values(PROFILES)
    .map(({ name, source }) => `  ${name.padEnd(width)}${source}`)
    .join("\n");
}

async function runPlan(words: readonly string[], terminal: Terminal): Promise<number> {
  const { values: flags, positionals } = parseWords(words, FLAGS, 1);
  const [file] = positionals;
  if (file === undefined) throw new WrongUse("Expected the FILE of a configuration");
  if ((flags.traffic === undefined) === (flags.trace === undefined)) {
    throw new WrongUse("Expected either --traffic or --trace");
  }
  if (flags.speed !== undefined && flags.trace === undefined) {
    throw new WrongUse("--speed: Expected with --trace, which it makes faster");
  }
  if (flags.html !== undefined) requireWritable(flags.html);
  const { configuration } = await requireConfigurationFile(file, {
    mode: "local",
    hashKey: keyHasher("plan"),
  });
  const { poolId, tenants } = tenantsOfPool(configuration, flags.pool);
  const hardware = findProfile(flags.profile);
  const planned =
    flags.traffic === undefined
      ? tracedTenants(tenants)
      : plannedTenants(tenants, readTraffic(flags.traffic));
  const names = planned.map(({ profile }) => profile.name);
  for (const line of notSimulated(configuration, poolId, names)) terminal.complain(line);
  const [min = 1, max = min] = flags.replicas;
  const options: Omit<PlanOptions, "replicas"> = {
    tenants: planned,
    hardware,
    seeds: flags.seeds,
    warmUpMs: flags["warm-up"] * 1000,
    measuredMs: flags.seconds * 1000,
    ...traceOf(flags, planned.length),
    onProgress: progressTeller(flags.seeds, terminal),
  };
  const search = smallestPool({ min, max }, (replicas) =>
    planPool({ ...options, replicas }, flags.refused),
  );
  const plan = {
    ...search,
    title: `Plan of the pool ${poolId}`,
    basis: `Pool ${poolId} of ${hardware.name} (${hardware.source}), simulated: ${flags.seeds} run(s) of ${flags.seconds} s a size behind ${flags["warm-up"]} s`,
    replicasMax: max,
    sequenceTokensMax: sequenceTokensMax(hardware),
  };
  if (flags.html !== undefined) writeResult(flags.html, planPage(plan));
  if (flags.json)
    terminal.print(JSON.stringify({ ...plan, smallest: search.smallest?.replicas ?? null }));
  else for (const line of reportPlan(plan)) terminal.print(line);
  // Who has traffic on file is to be planned; the n-th tenant of a trace may have none.
  const isMeasured =
    flags.trace !== undefined ||
    search.smallest?.tenants.every(({ isKept }) => isKept !== null) === true;
  const isKept = search.smallest !== undefined && isMeasured;
  return isKept ? EXIT_CODES.ok : EXIT_CODES.failure;
}

const TRACE_REQUESTS_MAX = 1_000_000;

function traceOf(
  { trace, speed = 1 }: Flags,
  tenants: number,
): Pick<PlanOptions, "createArrivals"> {
  if (trace === undefined) return {};
  return {
    createArrivals: () =>
      ofTenants(readTrace(trace, { requestsMax: TRACE_REQUESTS_MAX }), { tenants, speed }),
  };
}

const PROGRESS_EVERY_MS = 2_000;
const BAR_CELLS = 20;

/** How many sizes will be tried is not known before, so each run has a bar of its own. */
function progressTeller(seeds: number, terminal: Terminal) {
  let nextAtMs = performance.now() + PROGRESS_EVERY_MS;
  return ({ replicas, seed, doneRatio }: PlanProgress) => {
    const nowMs = performance.now();
    if (nowMs < nextAtMs) return;
    nextAtMs = nowMs + PROGRESS_EVERY_MS;
    const bar = "#".repeat(Math.round(BAR_CELLS * doneRatio)).padEnd(BAR_CELLS, ".");
    terminal.complain(`[${bar}] ${replicas} replica(s), run ${seed} of ${seeds}`);
  };
}
