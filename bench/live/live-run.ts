import { setMaxListeners } from "node:events";
import { drawArrivals } from "../../cli/bench/load-arrivals.ts";
import type { LoadResult } from "../../cli/bench/load-result.ts";
import { measureLoad } from "../../cli/bench/measure-load.ts";
import { measurePrompts } from "../../cli/bench/probe-server.ts";
import { promptText } from "../../cli/bench/prompt-text.ts";
import { AnswerStreams } from "../../cli/bench/stream-answer.ts";
import { WALL_CLOCK } from "../../cli/bench/wall-clock.ts";
import { runExperiment } from "../../simulator/experiment.ts";
import { readSamples } from "../soak/metrics-text.ts";
import type { MeasuredStack } from "../support/measured-stack.ts";
import { loadTenantsOf, PROFILES, ratesAt, REPLICAS } from "./live-tenants.ts";

/** What is sent in a run; the same for the live pool and for the simulated one. */
export interface LiveLoad {
  readonly loadRatio: number;
  /** So many times its part for some tenants. */
  readonly factors: Readonly<Record<string, number>>;
  readonly seed: number;
  readonly warmUpMs: number;
  readonly measuredMs: number;
}

/** What a tenant got, live or simulated. */
export interface TenantFigures {
  readonly name: string;
  readonly offered: number;
  readonly refused: number;
  /** Refused by 503: within its guarantee. */
  readonly refusedInProfile: number;
  readonly failed: number;
  readonly good: number;
  /** Admitted and judged. */
  readonly judged: number;
  readonly ttftP50Ms: number;
  readonly ttftP99Ms: number;
  readonly tpotP50Ms: number;
}

export interface LiveRun {
  readonly tenants: readonly TenantFigures[];
  /** Prompt tokens that clients were answered to, and that engines began. */
  readonly answeredPromptTokens: number;
  readonly startedPromptTokens: number;
  readonly keptUp: boolean;
}

/** Sends a load to the gateway of a stack. */
export async function runLive(stack: MeasuredStack, load: LiveLoad): Promise<LiveRun> {
  const { warmUpMs, measuredMs, seed } = load;
  const rates = ratesAt(load.loadRatio, load.factors);
  const tenants = loadTenantsOf(stack.keys, rates);
  const server = {
    baseUrl: stack.gatewayUrl,
    model: stack.model,
    endpoint: "chat",
    ignoresEos: true,
    answerMsMax: 120_000,
  } as const;
  const streams = new AnswerStreams(server, () => WALL_CLOCK.readNowMs());
  const { signal } = new AbortController();
  setMaxListeners(0, signal);
  try {
    const asker = { token: tenants[0]?.token, className: undefined };
    const measure = await measurePrompts(streams, asker, signal);
    const startedBefore = await startedPromptTokensOf(stack);
    let answeredPromptTokens = 0;
    const result = await measureLoad({
      tenants,
      arrivals: drawnArrivals(load, rates),
      clock: WALL_CLOCK,
      send: async (arrival, onOutput, ofLoad) => {
        // Another seed of prompts each time, or a second run would find the first one's cached.
        const prompt = promptText(arrival, measure, Date.now() % 2 ** 31);
        const token = tenants[arrival.tenantIndex]?.token;
        const { outputTokens } = arrival;
        const asked = { prompt, outputTokens, token, className: undefined };
        const end = await streams.ask(asked, onOutput, ofLoad);
        if (end.kind === "answered") answeredPromptTokens += end.inputTokens ?? 0;
        return end;
      },
      signal,
      warmUpMs,
      durationMs: warmUpMs + measuredMs,
      isMeasured: measure.isMeasured,
      keepsDetails: false,
      setting: {
        date: new Date().toISOString(),
        model: stack.model,
        endpoint: "chat",
        ratePerSecond: rates.reduce((sum, rate) => sum + rate, 0),
        burstiness: 1,
        concurrencyMax: 5_000,
        seed,
      },
    });
    return {
      tenants: result.tenants.map(figuresOf),
      answeredPromptTokens,
      startedPromptTokens: (await startedPromptTokensOf(stack)) - startedBefore,
      keptUp: result.client.kept_up,
    };
  } finally {
    streams.close();
  }
}

/** Sends the same requests to a simulated pool. */
export function runSimulated(load: LiveLoad): TenantFigures[] {
  const { warmUpMs, measuredMs, seed } = load;
  const rates = ratesAt(load.loadRatio, load.factors);
  const { scorecard } = runExperiment({
    seed,
    profiles: REPLICAS,
    workload: {
      tenants: PROFILES.map((profile, index) => ({
        profile,
        startsPerSecond: rates[index] ?? 0,
        rateShapes: [],
      })),
    },
    createArrivals: () =>
      drawnArrivals(load, rates).map(({ atMs, tenantIndex, promptTokens, outputTokens }) => ({
        atMs,
        tenantIndex,
        promptTokens,
        outputTokens,
        outputTokensMax: outputTokens,
        prefixTokens: 0,
        prefixGroup: 0,
      })),
    warmUpMs,
    measuredMs,
    engine: { keepsTbt: true },
    actsOnLateness: true,
  });
  return scorecard.tenants.map(({ name, counts, ttftMs, tpotMs }) => ({
    name,
    offered: counts.offered,
    refused: counts.rejectedInProfile + counts.rejectedOutOfProfile,
    refusedInProfile: counts.rejectedInProfile,
    failed: counts.missedBy.failed,
    good: counts.good,
    judged: counts.good + counts.missed,
    ttftP50Ms: ttftMs.quantile(0.5) ?? NaN,
    ttftP99Ms: ttftMs.quantile(0.99) ?? NaN,
    tpotP50Ms: tpotMs.quantile(0.5) ?? NaN,
  }));
}

function drawnArrivals({ seed, warmUpMs, measuredMs }: LiveLoad, rates: readonly number[]) {
  const ratePerSecond = rates.reduce((sum, rate) => sum + rate, 0);
  const durationMs = warmUpMs + measuredMs;
  return [...drawArrivals(loadTenantsOf([], rates), { seed, ratePerSecond, durationMs })];
}

function figuresOf(tenant: LoadResult["tenants"][number]): TenantFigures {
  return {
    name: tenant.name,
    offered: tenant.offered,
    refused: tenant.rejected,
    refusedInProfile: tenant.rejected_by_status["503"] ?? 0,
    failed: tenant.failed,
    good: tenant.good,
    judged: tenant.admitted,
    ttftP50Ms: tenant.ttft_ms.p50 ?? NaN,
    ttftP99Ms: tenant.ttft_ms.p99 ?? NaN,
    tpotP50Ms: tenant.tpot_ms.p50 ?? NaN,
  };
}

async function startedPromptTokensOf({ engineUrls, replicaSecret }: MeasuredStack) {
  const totals = await Promise.all(
    engineUrls.map(async (url) => {
      const headers = { authorization: `Bearer ${replicaSecret}` };
      const sample = readSamples(await (await fetch(`${url}/metrics`, { headers })).text());
      return sample("engine_prompt_tokens_total");
    }),
  );
  return totals.reduce((sum, total) => sum + total, 0);
}
