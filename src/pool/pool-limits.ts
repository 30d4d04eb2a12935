import { HOLD_MS_MAX } from "../slo/answer-span.ts";

/** What bounds a pool, whatever its configuration asks for. */
export interface PoolLimits {
  /** Replicas beyond this many are not used. */
  readonly replicasMax: number;
  /** Ceiling on the configuration's `queueMax`. */
  readonly queueMax: number;
  /** Of one tenant so many wait at most, also within its guarantee; others find room behind it. */
  readonly tenantQueueMax: number;
  /** At this many leases nothing is dispatched until one ends. */
  readonly leasesMax: number;
  /** Tenants remembered; beyond it the one longest unheard of, with nothing here, is forgotten. */
  readonly tenantsMax: number;
  /** A first token that is not there by then will not come; it stands in for a TTFT target. */
  readonly firstTokenMsMax: number;
  /** A lease that nobody settles ends by itself; longer than any request may take. */
  readonly leaseMs: number;
  /** For so long a pool that has just begun lets requests wait for replicas to dial in. */
  readonly relearnMs: number;
}

/** The bounds of a pool in production. */
export const POOL_LIMITS: PoolLimits = {
  replicasMax: 128,
  queueMax: 10_000,
  tenantQueueMax: 2_000,
  leasesMax: 32_768,
  tenantsMax: 4_096,
  firstTokenMsMax: 60_000,
  leaseMs: HOLD_MS_MAX,
  relearnMs: 2_000,
};
