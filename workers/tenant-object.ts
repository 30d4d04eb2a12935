import { DurableObject } from "cloudflare:workers";
import { RateLimits } from "../src/tenants/rate-limits.ts";
import type { LimitedRequest, LimitsVerdict } from "../src/tenants/tenant-limits.ts";
import { TenantLimits } from "../src/tenants/tenant-limits.ts";
import type { Env } from "./env.ts";
import { StoredRates } from "./stored-rates.ts";
import { TenantPermit } from "./tenant-permit.ts";

/** Whether a tenant's request may begin beside its others, and how the tenant's limits stand. */
export type PermitAnswer =
  | Extract<LimitsVerdict, { kind: "rejected" }>
  | {
      readonly kind: "granted";
      readonly standings: LimitsVerdict["standings"];
      readonly permit: TenantPermit;
    };

/**
 * The single writer of what one tenant uses, body of `TenantLimits`; found by tenant id.
 *
 * Permits live in memory: each one outstanding keeps the object there. When the object dies all
 * the same (a deploy, a crash), the requests under way are no longer counted as running, so for their
 * remaining time a tenant may run up to twice its limit; storing each permit would cost every
 * request a write to disk. What counts by the minute is stored, since the object forgets all in less
 * than that; requests that were under way then count as reserved until their minute is over.
 */
export class TenantObject extends DurableObject<Env> {
  readonly #stored: StoredRates;
  readonly #limits: TenantLimits;

  constructor(state: DurableObjectState, env: Env) {
    super(state, env);
    this.#stored = new StoredRates(state.storage);
    this.#limits = new TenantLimits(new RateLimits(this.#stored.load()));
  }

  /**
   * Asks for a place among the requests that the tenant may run at once, and for the most that this
   * one can take of the tenant's minute: both or neither. Asking again for the same request takes
   * nothing more.
   */
  async acquire(request: LimitedRequest): Promise<PermitAnswer> {
    const verdict = this.#limits.acquire(request, Date.now());
    if (verdict.kind === "rejected") return verdict;
    const { hold, standings } = verdict;
    // Who is limited in nothing but concurrency costs no write.
    const isRated = Object.keys(standings).length > 0;
    if (isRated) this.#stored.saveSoon(this.#limits.ratesState);
    const permit = new TenantPermit((settlement) => {
      this.#limits.release(hold, settlement, Date.now());
      if (isRated) this.#stored.saveSoon(this.#limits.ratesState);
    });
    return { kind: "granted", standings, permit };
  }
}
