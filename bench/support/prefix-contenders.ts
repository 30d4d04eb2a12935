import { runExperiment, sustainableBasisOf } from "../../simulator/experiment.ts";
import type { HardwareProfile } from "../../simulator/hardware-profile.ts";
import { LLAMA_8B_H200 } from "../../simulator/hardware-profile.ts";
import { CacheAware } from "../../simulator/policies/cache-aware.ts";
import { LeastOutstanding, RoundRobin } from "../../simulator/policies/load-balancers.ts";
import type { Policy } from "../../simulator/policies/policy.ts";
import { SessionSticky } from "../../simulator/policies/session-sticky.ts";
import { WeightedScorers } from "../../simulator/policies/weighted-scorers.ts";
import { mooncakeArrivals } from "../../simulator/traces/mooncake.ts";
import type { ArrivalSpec } from "../../simulator/workloads/arrival.ts";
import { AZURE_CONVERSATION, MOONCAKE_CONVERSATION } from "../../simulator/workloads/lengths.ts";
import { steady } from "../../simulator/workloads/scenarios.ts";
import { promised, shareOf } from "../../simulator/workloads/tenant-mix.ts";
import type { TenantProfile } from "../../simulator/workloads/tenant-profile.ts";
import type { Workload } from "../../simulator/workloads/workload.ts";

export const REPLICAS = 4;

/** A GPU's machine with a part of its memory, so that what is cached has to give way as it does in use. */
export const REPLICA: HardwareProfile = {
  ...LLAMA_8B_H200,
  name: "llama-8b-h200-quarter-kv",
  blockCount: Math.floor(LLAMA_8B_H200.blockCount / 4),
};

const PROFILES = Array.from({ length: REPLICAS }, () => REPLICA);

/** A routing rule under one of its settings; the core has none. */
export interface Router {
  readonly name: string;
  readonly setting: string;
  /** Absent: the core. */
  readonly createPolicy?: () => Policy;
}

/** Requests to be routed. */
export interface CacheScenario {
  readonly name: string;
  readonly workload: Workload;
  /** Present: these instead of the workload's own. */
  readonly arrivals?: readonly ArrivalSpec[];
}

/** What came of one run. */
export interface CacheRun {
  readonly offered: number;
  readonly good: number;
  /** Of whole answers. */
  readonly promptTokens: number;
  readonly hitTokens: number;
  /** Of all that were answered. */
  readonly ttftsMs: readonly number[];
}

export const ROUTERS: readonly Router[] = [
  { name: "round robin", setting: "none", createPolicy: () => new RoundRobin() },
  { name: "least outstanding", setting: "none", createPolicy: () => new LeastOutstanding() },
  ...[1.1, 1.25, 1.5, 2, Infinity].map((loadRatioMax) => ({
    name: "session-sticky",
    setting: `at most ${loadRatioMax} times the mean load`,
    createPolicy: () => new SessionSticky({ loadRatioMax }),
  })),
  ...[0.1, 0.3, 0.5].flatMap((matchRatioMin) =>
    [4, 16, 64].map((imbalanceRequests) => ({
      name: "cache-aware (SGLang)",
      setting: `cache_threshold ${matchRatioMin}, balance_abs_threshold ${imbalanceRequests}`,
      createPolicy: () => new CacheAware({ matchRatioMin, imbalanceRequests }),
    })),
  ),
  ...[
    [3, 2, 2],
    [1, 1, 1],
    [6, 2, 2],
    [1, 2, 2],
    [3, 4, 1],
    [3, 1, 4],
  ].map(([prefix = 0, queue = 0, kvUsage = 0]) => ({
    name: "prefix, queue and KV scorers (llm-d)",
    setting: `weights ${prefix}, ${queue}, ${kvUsage}`,
    createPolicy: () => new WeightedScorers({ prefix, queue, kvUsage }),
  })),
  { name: "**Sluice**", setting: "none" },
];

const TENANTS: readonly TenantProfile[] = [
  {
    name: "chat",
    share: shareOf(1, 2),
    targets: promised(1_000, 50),
    lengths: AZURE_CONVERSATION,
    intervals: { kind: "gamma", cv: 1.5 },
    prefixes: { groups: 40, promptRatio: 0.5 },
    sessions: {
      turnsMean: 6,
      turnsMax: 30,
      turnTokensMean: 80,
      thinkMeanMs: 12_000,
      answerTokenMs: 20,
      promptTokensMax: 24_000,
    },
  },
  {
    name: "agent",
    share: shareOf(1, 2),
    targets: promised(3_000, 100),
    lengths: MOONCAKE_CONVERSATION,
    intervals: { kind: "gamma", cv: 2 },
    prefixes: { groups: 20, promptRatio: 0.4 },
    sessions: {
      turnsMean: 8,
      turnsMax: 40,
      turnTokensMean: 400,
      thinkMeanMs: 3_000,
      answerTokenMs: 20,
      promptTokensMax: 32_000,
    },
  },
];

/** Two tenants' sessions at a part of what least-outstanding sustains where nothing is cached. */
export function sessionsAt(loadRatio: number): CacheScenario {
  const workload = steady(sustainableBasisOf(PROFILES), { loadRatio, profiles: TENANTS });
  return { name: `Sessions at ${loadRatio}×`, workload };
}

const TRACE_REQUESTS_MAX = 4_000;
/** A trace's hour in so many minutes: it was recorded on a larger pool. */
const TRACE_SPEED = 3;
const TRACE_PROMPT_TOKENS_MAX = 100_000;

/** What a trace's clients asked for, faster. */
export function traceScenario(name: string, lines: readonly string[]): CacheScenario {
  const [, agent] = steady(sustainableBasisOf(PROFILES), {
    loadRatio: 1,
    profiles: TENANTS,
  }).tenants;
  const arrivals = [
    ...mooncakeArrivals(
      lines.filter((line) => line !== ""),
      { requestsMax: TRACE_REQUESTS_MAX, promptTokensMax: TRACE_PROMPT_TOKENS_MAX },
    ),
  ].map((arrival) => ({ ...arrival, atMs: arrival.atMs / TRACE_SPEED }));
  return {
    name: `${name} at ${TRACE_SPEED} times its speed`,
    workload: { tenants: agent === undefined ? [] : [agent] },
    arrivals,
  };
}

/** Routes a scenario's requests, on a seed; the first quarter of the time does not count. */
export function runRouter(
  { createPolicy }: Router,
  { workload, arrivals }: CacheScenario,
  { seed, measuredMs }: { readonly seed: number; readonly measuredMs: number },
): CacheRun {
  const warmUpMs = measuredMs / 4;
  const untilMs = warmUpMs + measuredMs;
  const run = { offered: 0, good: 0, promptTokens: 0, hitTokens: 0, ttftsMs: [] as number[] };
  runExperiment({
    seed,
    profiles: PROFILES,
    workload,
    warmUpMs,
    measuredMs,
    engine: { keepsTbt: true },
    ...(createPolicy !== undefined && { createPolicy }),
    ...(arrivals !== undefined && {
      createArrivals: () => arrivals.filter(({ atMs }) => atMs < untilMs),
    }),
    onRecord: ({ arrivedAtMs, attainment, cachedTokens, spec, timeline }) => {
      if (arrivedAtMs < warmUpMs || arrivedAtMs >= untilMs) return;
      run.offered += 1;
      if (attainment.kind === "good") run.good += 1;
      if (timeline.ttftMs !== undefined) run.ttftsMs.push(timeline.ttftMs);
      if (cachedTokens === undefined) return;
      run.promptTokens += spec.promptTokens;
      run.hitTokens += cachedTokens;
    },
  });
  return run;
}
