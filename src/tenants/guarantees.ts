import type * as z from "zod";
import type { ConfigurationFile } from "./configuration-file.ts";
import type { ConfigurationProblem } from "./configuration-problems.ts";
import type { Part } from "./document-part.ts";
import { child, itemsOf, nameOf } from "./document-part.ts";
import type { LiveShare } from "./live-configuration.ts";
import type { WholeTenant } from "./inheritance.ts";
import { inherited } from "./inheritance.ts";
import { fallbackModelsOf } from "./overload-step.ts";
import { DEFAULT_SHARE, GUARANTEED_RATIO_MAX, GUARANTEED_SUM_MAX } from "./share.ts";
import { parseRatio } from "./units.ts";

type PoolShare = z.input<typeof LiveShare>;

/**
 * Returns each tenant's share of every pool that it may use. Where the file says nothing of a
 * guarantee, tenants divide by weight what the explicit ones leave of the 90 % of a pool that can be
 * guaranteed, so that a file without shares still protects each tenant from all others.
 */
export function resolveShares(
  file: ConfigurationFile,
  tenants: ReadonlyMap<string, WholeTenant>,
): Map<string, PoolShare[]> {
  const poolsByTenant = new Map(
    [...tenants].map(([name, tenant]) => [name, poolsOf(tenant.models, file)]),
  );
  const ratioByWeightOf = new Map(
    [...file.pools.keys()].map((poolId) => {
      const users = [...tenants].flatMap(([name, tenant]) =>
        poolsByTenant.get(name)?.has(poolId) === true ? [tenant] : [],
      );
      return [poolId, ratioByWeight(users)];
    }),
  );
  return new Map(
    [...tenants].map(([name, { share, priority, overload }]) => {
      const { weight = DEFAULT_SHARE.weight, guaranteed } = share ?? {};
      const band = priority ?? DEFAULT_SHARE.band;
      const own = poolsByTenant.get(name) ?? new Set();
      const shares = [...own].map((poolId) => {
        const defaultRatio = weight * (ratioByWeightOf.get(poolId) ?? 0);
        const guaranteedRatio = Math.min(guaranteed ?? defaultRatio, GUARANTEED_RATIO_MAX);
        return { poolId, weight, guaranteedRatio, band };
      });
      // Who comes to a pool only for want of room in another one is guaranteed nothing there.
      const further = [...poolsOf(fallbackModelsOf(overload), file)]
        .filter((poolId) => !own.has(poolId))
        .map((poolId) => ({ poolId, weight, guaranteedRatio: 0, band }));
      return [name, [...shares, ...further]];
    }),
  );
}

/** Finds the pools of which more is guaranteed, in so many words, than can be kept; of those that there are. */
export function findOvercommittedPools({
  models,
  pools: existing,
  tenants,
  defaults,
}: {
  readonly models: readonly Part[];
  readonly pools: readonly Part[];
  readonly tenants: readonly Part[];
  readonly defaults: Part;
}): ConfigurationProblem[] {
  const names = new Set(existing.map(nameOf));
  const poolOfModel = new Map(models.map((model) => [nameOf(model), child(model, "pool").value]));
  const ratioByPool = new Map<string, number>();
  for (const tenant of tenants) {
    const { value: guaranteed } = inherited(tenant, defaults, "share", "guaranteed");
    const ratio = typeof guaranteed === "string" ? parseRatio(guaranteed) : undefined;
    if (ratio === undefined) continue;
    const pools = itemsOf(inherited(tenant, defaults, "models")).map(({ value }) =>
      typeof value === "string" ? poolOfModel.get(value) : undefined,
    );
    for (const pool of new Set(pools)) {
      if (typeof pool !== "string" || !names.has(pool)) continue;
      ratioByPool.set(pool, (ratioByPool.get(pool) ?? 0) + ratio);
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

function poolsOf(models: readonly string[], file: ConfigurationFile): Set<string> {
  return new Set(models.flatMap((model) => file.models.get(model)?.pool ?? []));
}

/** What a weight of 1 is guaranteed of a pool by default. */
function ratioByWeight(users: readonly WholeTenant[]): number {
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
