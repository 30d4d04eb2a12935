import { RpcTarget } from "cloudflare:workers";
import type { Settlement } from "../src/tenants/rate-limits.ts";

/**
 * A request's place among those its tenant may run at once and what it has reserved of the
 * tenant's minute, given to the caller of `TenantObject.acquire`. The place comes back when the permit
 * is released or disposed of, as a `PoolLease` does; who does not say what the request used leaves it
 * charged with all that was reserved.
 */
export class TenantPermit extends RpcTarget {
  readonly #release: (settlement: Settlement | undefined) => void;

  /** `release` may be called more than once; the tenant's limits heed the first call. */
  constructor(release: (settlement: Settlement | undefined) => void) {
    super();
    this.#release = release;
  }

  /** Gives the place back and says what was used, if that is known. Only the first call counts. */
  async release(settlement?: Settlement): Promise<void> {
    this.#release(settlement);
  }

  [Symbol.dispose](): void {
    this.#release(undefined);
  }
}
