import { assert } from "../base/assert.ts";
import { renewEntry } from "../forecast/bounded-map.ts";
import type { ReplicaId, TenantId } from "../protocol/ids.ts";

/** A tenant's request on a replica. */
export interface TenantAttempt {
  readonly tenantId: TenantId;
  readonly replicaId: ReplicaId;
  readonly dispatchNumber: number;
}

/** Failures of one tenant without a success between them. */
interface FailureStreak {
  /** Of its first failure: what was sent before and goes well says nothing of what is sent now. */
  readonly sinceNumber: number;
  /** Where they happened, counted no further than it matters. */
  readonly replicaIds: ReplicaId[];
}

/** Tenants whose last requests failed, the longest quiet one first. */
export type FailingTenantsState = Map<TenantId, FailureStreak>;

const TENANTS_MAX = 1_024;
const REPLICAS_TO_BLAME = 2;

/**
 * Tells a tenant whose requests fail from a replica that fails requests: its requests fail at one
 * replica after another, and a replica's failures are those of whoever is sent there. One request is
 * enough to tell, since what failed at one replica is tried at another.
 */
export class FailingTenants {
  readonly state: FailingTenantsState;

  constructor(state: FailingTenantsState = new Map()) {
    this.state = state;
  }

  /** Whether a failure of this tenant is taken to be its own, and so says nothing of a replica. */
  isToBlame(tenantId: TenantId): boolean {
    return (this.state.get(tenantId)?.replicaIds.length ?? 0) >= REPLICAS_TO_BLAME;
  }

  failed({ tenantId, replicaId, dispatchNumber }: TenantAttempt): void {
    const { replicaIds } = renewEntry(this.state, tenantId, TENANTS_MAX, () => ({
      sinceNumber: dispatchNumber,
      replicaIds: [],
    }));
    if (replicaIds.length < REPLICAS_TO_BLAME && !replicaIds.includes(replicaId)) {
      replicaIds.push(replicaId);
    }
  }

  succeeded({ tenantId, dispatchNumber }: TenantAttempt): void {
    const streak = this.state.get(tenantId);
    if (streak !== undefined && dispatchNumber > streak.sinceNumber) this.state.delete(tenantId);
  }

  checkInvariants(): void {
    assert(this.state.size <= TENANTS_MAX, "failing tenants are bounded");
    for (const { replicaIds } of this.state.values()) {
      assert(replicaIds.length > 0, "a streak has a failure");
      assert(replicaIds.length <= REPLICAS_TO_BLAME, "replicas count no further than they matter");
      assert(new Set(replicaIds).size === replicaIds.length, "a replica counts once");
    }
  }
}
