import type { LoadTenant } from "../../cli/bench/load-tenant.ts";
import { lengthTableOf } from "../../cli/plan/traffic-file.ts";
import type { SloTargets } from "../../src/slo/targets.ts";
import { loadBasisOf } from "../../simulator/experiment.ts";
import { requestRates } from "../../simulator/workloads/scenarios.ts";
import { promised } from "../../simulator/workloads/tenant-mix.ts";
import type { TenantProfile } from "../../simulator/workloads/tenant-profile.ts";
import { PACED } from "./paced-profile.ts";

/** A tenant of `sluice.live.yaml`, whose promises and shares these are, and what it asks for. */
interface LiveTenant {
  readonly name: string;
  readonly weight: number;
  readonly guaranteedRatio: number;
  readonly ttftMs: number;
  readonly tpotMs: number;
  readonly prompt: readonly [number, number];
  readonly output: readonly [number, number];
}

/** In the file's order. Answers have 16 tokens or more, so that the gateway and the load judge pace alike. */
const TENANTS: readonly LiveTenant[] = [
  {
    name: "tight",
    weight: 2,
    guaranteedRatio: 0.4,
    ttftMs: 3_000,
    tpotMs: 240,
    prompt: [40, 120],
    output: [16, 32],
  },
  {
    name: "chat",
    weight: 1,
    guaranteedRatio: 0.2,
    ttftMs: 6_000,
    tpotMs: 300,
    prompt: [80, 300],
    output: [16, 48],
  },
  {
    name: "bulk",
    weight: 1,
    guaranteedRatio: 0.2,
    ttftMs: 20_000,
    tpotMs: 600,
    prompt: [200, 600],
    output: [32, 64],
  },
];

export const REPLICAS = [PACED, PACED] as const;

/** The same tenants as the simulator has them. */
export const PROFILES: readonly TenantProfile[] = TENANTS.map((tenant) => ({
  name: tenant.name,
  share: { weight: tenant.weight, guaranteedRatio: tenant.guaranteedRatio, band: 0 },
  targets: promised(tenant.ttftMs, tenant.tpotMs) satisfies SloTargets,
  lengths: lengthTableOf({
    rate: 1,
    burstiness: 1,
    shared_prompt: 0,
    shared_prompts: 1,
    prompt_tokens: rangeOf(tenant.prompt),
    output_tokens: rangeOf(tenant.output),
  }),
  intervals: { kind: "poisson" },
  prefixes: { groups: 1, promptRatio: 0 },
}));

/**
 * The load by the core's own prices at which least outstanding just keeps the targets of 99 % of these requests
 * (simulated: 100 % at 2.0, 94 % at 2.2). Above 1 since batches are larger than the reference's.
 */
const SUSTAINABLE_RATIO = 2;

/** Requests a second of each tenant at a load; 1 is what the pool just sustains. */
export function ratesAt(loadRatio: number, factors: Readonly<Record<string, number>>): number[] {
  const exact = requestRates(loadBasisOf(REPLICAS), PROFILES);
  return TENANTS.map(
    ({ name }) =>
      1000 * SUSTAINABLE_RATIO * loadRatio * (factors[name] ?? 1) * (exact.get(name) ?? 0),
  );
}

/** The same tenants as a load has them, each with its key and its part of the requests. */
export function loadTenantsOf(
  keys: readonly (string | undefined)[],
  rates: readonly number[],
): LoadTenant[] {
  return TENANTS.map(({ name, ttftMs, tpotMs, prompt, output }, index) => ({
    name,
    token: keys[index],
    className: undefined,
    weight: rates[index] ?? 0,
    burstiness: 1,
    promptTokens: rangeOf(prompt),
    outputTokens: rangeOf(output),
    goals: { ttft: ttftMs, tpot: tpotMs },
  }));
}

function rangeOf([min, max]: readonly [number, number]) {
  return { min, max };
}
