import type * as z from "zod";
import type { ConfigurationFile, TenantSection } from "./configuration-file.ts";
import type { ConfigurationProblem } from "./configuration-problems.ts";
import type { Part } from "./document-part.ts";
import { child, itemsOf, nameOf } from "./document-part.ts";
import type { LiveShare } from "./live-configuration.ts";
import { DEFAULT_SHARE, GUARANTEED_RATIO_MAX, GUARANTEED_SUM_MAX } from "./share.ts";
import { parseRatio } from "./units.ts";

type PoolShare = z.input<typeof LiveShare>;

/**
 * Returns each tenant's share of every pool that it may use. Where the file says nothing of a
 * guarantee, tenants divide by weight what the explicit ones leave of the 90 % of a pool that can be
 * guaranteed, so that a file without shares still protects each tenant from all others.
 */
export function resolveShares(file: ConfigurationFile): Map<string, PoolShare[]> {
  const poolsByTenant = new Map(
    [...file.tenants].map(([name, tenant]) => [name, poolsOf(tenant, file)]),
  );
  const ratioByWeightOf = new Map(
    [...file.pools.keys()].map((poolId) => {
      const users = [...file.tenants].flatMap(([name, tenant]) =>
        poolsByTenant.get(name)?.has(poolId) === true ? [tenant] : [],
      );
      return [poolId, ratioByWeight(users)];
    }),
  );
  return new Map(
    [...file.tenants].map(([name, { share, priority }]) => {
      const { weight = DEFAULT_SHARE.weight, guaranteed } = share ?? {};
      const band = priority ?? DEFAULT_SHARE.band;
      const shares = [...(poolsByTenant.get(name) ?? [])].map((poolId) => {
        const defaultRatio = weight * (ratioByWeightOf.get(poolId) ?? 0);
        const guaranteedRatio = Math.min(guaranteed ?? defaultRatio, GUARANTEED_RATIO_MAX);
        return { poolId, weight, guaranteedRatio, band };
      });
      return [name, shares];
    }),
  );
}

/** Finds the pools of which more is guaranteed, in so many words, than can be kept. */
export function findOvercommittedPools({
  models,
  tenants,
}: {
  readonly models: readonly Part[];
  readonly tenants: readonly Part[];
}): ConfigurationProblem[] {
  const poolOfModel = new Map(models.map((model) => [nameOf(model), child(model, "pool").value]));
  const ratioByPool = new Map<string, number>();
  for (const tenant of tenants) {
    const { value: guaranteed } = child(child(tenant, "share"), "guaranteed");
    const ratio = typeof guaranteed === "string" ? parseRatio(guaranteed) : undefined;
    if (ratio === undefined) continue;
    const pools = itemsOf(child(tenant, "models")).map(({ value }) =>
      typeof value === "string" ? poolOfModel.get(value) : undefined,
    );
    for (const pool of new Set(pools)) {
      if (typeof pool === "string") ratioByPool.set(pool, (ratioByPool.get(pool) ?? 0) + ratio);
    }
  }
  return [...ratioByPool].flatMap(([pool, ratio]) =>
    ratio <= GUARANTEED_SUM_MAX
      ? []
      : [
          {
            path: ["pools", pool],
            message: `expected guarantees of at most ${toPercent(GUARANTEED_RATIO_MAX)} of it for all tenants together, found ${toPercent(ratio)}`,
          },
        ],
  );
}

function poolsOf({ models }: TenantSection, file: ConfigurationFile): Set<string> {
  return new Set(models.flatMap((model) => file.models.get(model)?.pool ?? []));
}

/** What a weight of 1 is guaranteed of a pool by default. */
function ratioByWeight(users: readonly TenantSection[]): number {
  let leftRatio = GUARANTEED_RATIO_MAX;
  let weights = 0;
  for (const { share } of users) {
    if (share?.guaranteed === undefined) weights += share?.weight ?? DEFAULT_SHARE.weight;
    else leftRatio -= share.guaranteed;
  }
  return weights === 0 ? 0 : Math.max(0, leftRatio) / weights;
}

function toPercent(ratio: number): string {
  return `${Number((ratio * 100).toFixed(6))}%`;
}
