import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import * as z from "zod";
import { countFlag, flagSwitch } from "../cli/flags.ts";
import { assert } from "../src/base/assert.ts";
import { describeMachine } from "./support/machine.ts";
import type { CacheRun, CacheScenario, Router } from "./support/prefix-contenders.ts";
import { REPLICA, REPLICAS, ROUTERS, runRouter, sessionsAt } from "./support/prefix-contenders.ts";
import { traceScenario } from "./support/prefix-contenders.ts";
import { runProgram } from "./support/run-program.ts";

const FLAGS = z.object({
  seeds: countFlag({ min: 1, max: 100, default: 2 }, "How many seeds each figure is summed over"),
  quick: flagSwitch("One seed, and a quarter of the time"),
});
type Flags = z.output<typeof FLAGS>;

const HELP = `Usage: npm run bench:prefix-routing -- [flags]

Simulates four replicas whose caches are too small for all that is asked, under our core and under published
routing rules: conversations and agents, and Mooncake's traces where SLUICE_SHARED names a folder that has
them. Each rule is tried with each of its settings on a seed of its own and goes on with the best of them.
The same flags give the same numbers on every machine. Prints Markdown.`;

/** At 1× least-outstanding keeps its targets with nothing cached: with caches all of them get much further. */
const LOADS = [1, 2.5, 4, 5.5];
const TUNING_LOAD = 4;
const TUNING_SEED = 1_001;
const FULL_MS = 80_000;
const TRACES = [
  { name: "conversation", file: "conversation_trace.jsonl" },
  { name: "tool and agent", file: "synthetic_trace.jsonl" },
] as const;

const percent = (ratio: number) => (100 * ratio).toFixed(1);

function runBenchmark(flags: Flags): string {
  const seeds = flags.quick ? 1 : flags.seeds;
  const measuredMs = flags.quick ? FULL_MS / 4 : FULL_MS;
  const tuned = tune(sessionsAt(TUNING_LOAD), measuredMs);
  const scenarios = [...LOADS.map(sessionsAt), ...tracesAtHand()];
  return [
    "# Routing to cached prefixes, compared in simulation",
    "",
    `\`npm run bench:prefix-routing -- ${flags.quick ? "--quick" : `--seeds ${flags.seeds}`}\``,
    "",
    describeMachine(),
    `- ${REPLICAS} replicas \`${REPLICA.name}\` with ${REPLICA.blockCount * REPLICA.blockTokens} tokens of KV each; ${seeds} seed(s), ${measuredMs / 1000} s each behind as much warm-up as a quarter of it`,
    `- settings chosen at ${TUNING_LOAD}× on seed ${TUNING_SEED}, by good requests, then by hits: ${[...tuned.values()].map(({ name, setting }) => `${name}: ${setting}`).join("; ")}`,
    "- hits: prompt tokens found cached, of all of whole answers; good: requests that kept every target, of all that were offered, those refused by Sluice included",
    ...scenarios.flatMap((scenario) => [
      "",
      `## ${scenario.name}`,
      "",
      "| | hits, % | good, % | good a second | TTFT p50, ms | TTFT p99, ms |",
      "|---|---:|---:|---:|---:|---:|",
      ...[...tuned.values()].map((router) => {
        const run = runSeeds(router, scenario, { seeds, measuredMs });
        const cells = [
          percent(run.hitTokens / run.promptTokens),
          percent(run.good / run.offered),
          (run.good / ((seeds * measuredMs) / 1000)).toFixed(1),
          run.ttftMsAt(0.5).toFixed(0),
          run.ttftMsAt(0.99).toFixed(0),
        ];
        return `| ${router.name} | ${cells.join(" | ")} |`;
      }),
    ]),
  ].join("\n");
}

/** Of each rule the setting under which most was good. */
function tune(scenario: CacheScenario, measuredMs: number): Map<string, Router> {
  const best = new Map<string, { readonly router: Router; readonly run: CacheRun }>();
  for (const router of ROUTERS) {
    const isAlone = ROUTERS.filter(({ name }) => name === router.name).length === 1;
    if (isAlone) {
      best.set(router.name, { router, run: NO_RUN });
      continue;
    }
    const run = runRouter(router, scenario, { seed: TUNING_SEED, measuredMs });
    const before = best.get(router.name)?.run ?? NO_RUN;
    const isBetter =
      run.good > before.good || (run.good === before.good && run.hitTokens > before.hitTokens);
    if (isBetter) best.set(router.name, { router, run });
  }
  return new Map([...best].map(([name, { router }]) => [name, router]));
}

const NO_RUN: CacheRun = { offered: 0, good: -1, promptTokens: 0, hitTokens: 0, ttftsMs: [] };

function runSeeds(
  router: Router,
  scenario: CacheScenario,
  { seeds, measuredMs }: { readonly seeds: number; readonly measuredMs: number },
) {
  const runs = Array.from({ length: seeds }, (_, index) =>
    runRouter(router, scenario, { seed: index + 1, measuredMs }),
  );
  const sum = (read: (run: CacheRun) => number) =>
    runs.reduce((total, run) => total + read(run), 0);
  const ttftsMs = runs.flatMap((run) => run.ttftsMs).toSorted((a, b) => a - b);
  return {
    offered: sum(({ offered }) => offered),
    good: sum(({ good }) => good),
    promptTokens: sum(({ promptTokens }) => promptTokens),
    hitTokens: sum(({ hitTokens }) => hitTokens),
    ttftMsAt: (ratio: number) => {
      const ttftMs = ttftsMs[Math.min(ttftsMs.length - 1, Math.floor(ratio * ttftsMs.length))];
      assert(ttftMs !== undefined, "somebody was answered");
      return ttftMs;
    },
  };
}

function tracesAtHand(): CacheScenario[] {
  const folder = join(process.env["SLUICE_SHARED"] ?? "", "traces", "mooncake");
  return TRACES.flatMap(({ name, file }) => {
    const path = join(folder, file);
    if (process.env["SLUICE_SHARED"] === undefined || !existsSync(path)) return [];
    return [traceScenario(`Mooncake, ${name}`, readFileSync(path, "utf8").split("\n"))];
  });
}

await runProgram({ flags: FLAGS, help: HELP, run: runBenchmark });
