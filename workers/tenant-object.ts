import { DurableObject } from "cloudflare:workers";
import type { RequestId } from "../src/protocol/ids.ts";
import { TenantPermits } from "../src/tenants/permits.ts";
import type { Env } from "./env.ts";
import { TenantPermit } from "./tenant-permit.ts";

/** Whether a tenant's request may run beside its others. */
export type PermitAnswer =
  | { readonly kind: "granted"; readonly permit: TenantPermit }
  | { readonly kind: "rejected"; readonly retryAfterMs: number };

/**
 * The single writer of one tenant's concurrency, body of `TenantPermits`; found by tenant id.
 *
 * Permits live in memory: each one outstanding keeps the object there. When the object dies all
 * the same (a deploy, a crash), the requests under way are no longer counted, so for their
 * remaining time a tenant may run up to twice its limit; storing each permit would cost every
 * request a write to disk.
 */
export class TenantObject extends DurableObject<Env> {
  readonly #permits = new TenantPermits();

  /**
   * Asks for a place among the `concurrencyMax` requests that the tenant may run at once. Asking
   * again for the same request takes no second place.
   */
  async acquire(requestId: RequestId, concurrencyMax: number): Promise<PermitAnswer> {
    const verdict = this.#permits.acquire({ requestId, concurrencyMax }, Date.now());
    if (verdict.kind === "rejected") return verdict;
    const { hold } = verdict;
    return {
      kind: "granted",
      permit: new TenantPermit(() => this.#permits.release(hold, Date.now())),
    };
  }
}
