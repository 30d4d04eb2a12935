import type { LiveConfiguration } from "../../src/tenants/live-configuration.ts";
import type { SloTargets } from "../../src/slo/targets.ts";
import type { ArrivalSpec } from "../../simulator/workloads/arrival.ts";
import { intervalsOf } from "../../simulator/workloads/intervals.ts";
import { CommandFailure } from "../command.ts";
import type { PlannedTenant } from "./plan-pool.ts";
import type { TenantTraffic } from "./traffic-file.ts";
import { lengthTableOf } from "./traffic-file.ts";

/** A tenant of a configuration, as far as its pool is concerned. */
export interface ConfiguredTenant {
  readonly name: string;
  readonly share: PlannedTenant["profile"]["share"];
  readonly targets: SloTargets;
}

/** Finds who is served by a pool: the one that is named, or the only one there is. Throws a `CommandFailure`. */
export function tenantsOfPool(
  { pools, tenants }: LiveConfiguration,
  wanted: string | undefined,
): { readonly poolId: string; readonly tenants: readonly ConfiguredTenant[] } {
  const names = pools.map(({ poolId }) => poolId).join(", ");
  const poolId = wanted ?? (pools.length === 1 ? pools[0]?.poolId : undefined);
  const pool = pools.find((each) => each.poolId === poolId);
  if (pool === undefined) {
    throw new CommandFailure(
      wanted === undefined
        ? `The file has several pools: say which with --pool (${names})`
        : `Expected one of the pools ${names}, found "${wanted}"`,
    );
  }
  const served = tenants.flatMap(({ tenantId, targets, shares }) => {
    const share = shares.find((each) => each.poolId === pool.poolId);
    if (share === undefined) return [];
    const { weight, guaranteedRatio, band } = share;
    return [{ name: tenantId, share: { weight, guaranteedRatio, band }, targets }];
  });
  if (served.length === 0) throw new CommandFailure(`Nobody is served by the pool ${pool.poolId}`);
  return { poolId: pool.poolId, tenants: served };
}

/** Puts together who is served and what they ask for. Throws a `CommandFailure` on a name that is in one alone. */
export function plannedTenants(
  configured: readonly ConfiguredTenant[],
  traffic: ReadonlyMap<string, TenantTraffic>,
): PlannedTenant[] {
  for (const name of traffic.keys()) {
    if (configured.some((tenant) => tenant.name === name)) continue;
    const names = configured.map((tenant) => tenant.name).join(", ");
    throw new CommandFailure(`Expected traffic of ${names}, found "${name}"`);
  }
  return configured.flatMap(({ name, share, targets }) => {
    const own = traffic.get(name);
    if (own === undefined) return [];
    const intervals = intervalsOf(own.burstiness);
    const prefixes = { groups: own.shared_prompts, promptRatio: own.shared_prompt };
    const lengths = lengthTableOf(own);
    return [
      { profile: { name, share, targets, lengths, intervals, prefixes }, ratePerSecond: own.rate },
    ];
  });
}

/** The tenants of a trace: its n-th client is the n-th that is served, beginning anew where it has more. */
export function tracedTenants(configured: readonly ConfiguredTenant[]): PlannedTenant[] {
  return configured.map(({ name, share, targets }) => ({
    profile: {
      name,
      share,
      targets,
      lengths: { promptTokens: [1], outputTokensByPrompt: [[1]] },
      intervals: { kind: "poisson" },
      prefixes: { groups: 1, promptRatio: 0 },
    },
    ratePerSecond: 0,
  }));
}

/** Gives each request of a trace to one of so many tenants, at another speed. */
export function* ofTenants(
  arrivals: Iterable<ArrivalSpec>,
  { tenants, speed }: { readonly tenants: number; readonly speed: number },
): Generator<ArrivalSpec> {
  for (const arrival of arrivals) {
    yield { ...arrival, atMs: arrival.atMs / speed, tenantIndex: arrival.tenantIndex % tenants };
  }
}
