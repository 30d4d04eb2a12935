import { fileURLToPath } from "node:url";
import type { LoadTenant } from "../../cli/bench/load-tenant.ts";
import type { TokenRange } from "../../cli/bench/token-range.ts";
import { plannedTenants, tenantsOfPool } from "../../cli/plan/planned-tenants.ts";
import { keyHasher, requireConfigurationFile } from "../../cli/read-configuration.ts";
import { assert } from "../../src/base/assert.ts";
import { loadBasisOf } from "../../simulator/experiment.ts";
import { requestRates } from "../../simulator/workloads/scenarios.ts";
import type { TenantProfile } from "../../simulator/workloads/tenant-profile.ts";
import { PACED } from "./paced-profile.ts";

/** Who is served and what they are promised, live and simulated. */
export const CONFIGURATION = new URL("./sluice.live.yaml", import.meta.url);

/** What its tenants ask for. Answers have 16 tokens or more, so that the gateway and the load judge pace alike. */
const TOKENS: Readonly<
  Record<string, { readonly prompt: TokenRange; readonly output: TokenRange }>
> = {
  tight: { prompt: { min: 40, max: 120 }, output: { min: 16, max: 32 } },
  chat: { prompt: { min: 80, max: 300 }, output: { min: 16, max: 48 } },
  bulk: { prompt: { min: 200, max: 600 }, output: { min: 32, max: 64 } },
};

export const REPLICAS = [PACED, PACED] as const;

const { configuration } = await requireConfigurationFile(fileURLToPath(CONFIGURATION), {
  mode: "local",
  hashKey: keyHasher("live"),
});
const TRAFFIC = new Map(
  Object.entries(TOKENS).map(([name, { prompt, output }]) => [
    name,
    {
      rate: 1,
      prompt_tokens: prompt,
      output_tokens: output,
      burstiness: 1,
      shared_prompt: 0,
      shared_prompts: 1,
    },
  ]),
);

/** The tenants as the simulator has them, in the file's order. */
export const PROFILES: readonly TenantProfile[] = plannedTenants(
  tenantsOfPool(configuration, undefined).tenants,
  TRAFFIC,
).map(({ profile }) => profile);

/**
 * The load by the core's own prices at which least outstanding just keeps the targets of 99 % of these requests
 * (simulated: 100 % at 2.0, 94 % at 2.2). Above 1 since batches are larger than the reference's.
 */
const SUSTAINABLE_RATIO = 2;

/** Requests a second of each tenant at a load; 1 is what the pool just sustains. */
export function ratesAt(loadRatio: number, factors: Readonly<Record<string, number>>): number[] {
  const exact = requestRates(loadBasisOf(REPLICAS), PROFILES);
  return PROFILES.map(
    ({ name }) =>
      1000 * SUSTAINABLE_RATIO * loadRatio * (factors[name] ?? 1) * (exact.get(name) ?? 0),
  );
}

/** The same tenants as a load has them, each with its key and its part of the requests. */
export function loadTenantsOf(
  keys: readonly (string | undefined)[],
  rates: readonly number[],
): LoadTenant[] {
  return PROFILES.map(({ name, targets: { ttft, tpot } }, index) => {
    const tokens = TOKENS[name];
    assert(tokens !== undefined, "every profile is of one of these");
    return {
      name,
      token: keys[index],
      className: undefined,
      weight: rates[index] ?? 0,
      burstiness: 1,
      promptTokens: tokens.prompt,
      outputTokens: tokens.output,
      goals: { ...(ttft && { ttft: ttft.limitMs }), ...(tpot && { tpot: tpot.limitMs }) },
    };
  });
}
