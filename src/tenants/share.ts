/** A tenant's part in a pool. */
export interface TenantShare {
  /** Relative to other tenants: twice the weight gets twice the cost when all have more to do than fits. */
  readonly weight: number;
  /** Of the pool's capacity, whatever others do. 0: nothing is guaranteed. */
  readonly guaranteedRatio: number;
  /** Priority band, lower is more urgent; bands age. */
  readonly band: number;
}
