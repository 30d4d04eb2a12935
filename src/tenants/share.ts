/** A tenant's part in a pool. */
export interface TenantShare {
  /** Relative to other tenants: twice the weight gets twice the cost when all have more to do than fits. */
  readonly weight: number;
  /** Of the pool's capacity, whatever others do. 0: nothing is guaranteed. */
  readonly guaranteedRatio: number;
  /** Priority band, lower is more urgent; bands age. */
  readonly band: number;
}

/** Of a pool so much can be guaranteed; the rest is for forecasts that err and replicas that fail. */
export const GUARANTEED_RATIO_MAX = 0.9;
/** The same for a sum: ratios that are decimals in a file are not quite so in binary. */
export const GUARANTEED_SUM_MAX = GUARANTEED_RATIO_MAX + 1e-9;

/** The part of a tenant of which nothing is said. */
export const DEFAULT_SHARE: TenantShare = { weight: 1, guaranteedRatio: 0, band: 0 };

/** Returns a tenant's part in a pool, the default one where its configuration has none. */
export function shareOf(
  { shares }: { readonly shares: readonly (TenantShare & { readonly poolId: string })[] },
  poolId: string,
): TenantShare {
  const found = shares.find((share) => share.poolId === poolId);
  if (found === undefined) return DEFAULT_SHARE;
  const { weight, guaranteedRatio, band } = found;
  return { weight, guaranteedRatio, band };
}
