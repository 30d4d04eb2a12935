import { RpcTarget } from "cloudflare:workers";
import type { Outcome } from "../src/pool/offer.ts";

/**
 * A dispatched request's hold on its slot, given to the caller of `PoolObject.acquire`.
 *
 * The slot comes back when the lease is settled, or disposed of: the runtime disposes of it when
 * the caller's execution context ends for whatever reason, so a crash cannot leak a slot. Keep the
 * context open (`ctx.waitUntil`) for as long as the request runs.
 */
export class PoolLease extends RpcTarget {
  readonly #settle: (outcome: Outcome) => void;

  /** `settle` may be called more than once; a pool heeds the first call. */
  constructor(settle: (outcome: Outcome) => void) {
    super();
    this.#settle = settle;
  }

  /** Says how the request ended. Only the first call counts. */
  async settle(outcome: Outcome): Promise<void> {
    this.#settle(outcome);
  }

  [Symbol.dispose](): void {
    this.#settle({ kind: "abandoned" });
  }
}
