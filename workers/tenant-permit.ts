import { RpcTarget } from "cloudflare:workers";

/**
 * A request's place among those its tenant may run at once, given to the caller of
 * `TenantObject.acquire`. It comes back when released or disposed of, as a `PoolLease` does.
 */
export class TenantPermit extends RpcTarget {
  readonly #release: () => void;

  /** `release` may be called more than once; the tenant's permits heed the first call. */
  constructor(release: () => void) {
    super();
    this.#release = release;
  }

  /** Gives the place back. Only the first call counts. */
  async release(): Promise<void> {
    this.#release();
  }

  [Symbol.dispose](): void {
    this.#release();
  }
}
