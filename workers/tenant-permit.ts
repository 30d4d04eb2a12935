import { RpcTarget } from "cloudflare:workers";
import type { UsageEnding } from "../src/tenants/usage-ending.ts";
import type { SloTold } from "./slo-told.ts";

/** A permit's side of its tenant. */
export interface PermitLine {
  /** Resolves when it is on disk that the request has begun. */
  readonly recorded: () => Promise<void>;
  /** May be called more than once; the tenant's limits heed the first call. */
  readonly released: (ending: UsageEnding | undefined, told?: SloTold) => Promise<void>;
}

/**
 * A request's place among those its tenant may run at once, what it has reserved of the tenant's limits,
 * and its row in the ledger, given to the caller of `TenantObject.acquire`. The place comes back when the
 * permit is released or disposed of, as a `PoolLease` does. Who does not say what the request used
 * leaves it charged with all that was reserved of the minute, and the ledger with what was last heard.
 */
export class TenantPermit extends RpcTarget {
  readonly #line: PermitLine;

  constructor(line: PermitLine) {
    super();
    this.#line = line;
  }

  /** Waits until nothing can make the tenant forget that the request has begun. */
  async recorded(): Promise<void> {
    await this.#line.recorded();
  }

  /**
   * Gives the place back at once and says how the request ended; resolves when that is on disk. Only the
   * first call counts.
   */
  async release(ending?: UsageEnding, told?: SloTold): Promise<void> {
    await this.#line.released(ending, told);
  }

  [Symbol.dispose](): void {
    void this.#line.released(undefined);
  }
}
