/// <reference lib="esnext.disposable" />
import { RpcTarget } from "cloudflare:workers";

/**
 * A request's place among those its tenant may run at once, given to the caller of
 * `TenantObject.acquire`. It comes back when released or disposed of, as a `PoolLease` does.
 */
export class TenantPermit extends RpcTarget {
  #giveBack: (() => void) | undefined;

  constructor(giveBack: () => void) {
    super();
    this.#giveBack = giveBack;
  }

  /** Gives the place back. Only the first call counts. */
  async release(): Promise<void> {
    this.#releaseOnce();
  }

  [Symbol.dispose](): void {
    this.#releaseOnce();
  }

  #releaseOnce(): void {
    this.#giveBack?.();
    this.#giveBack = undefined;
  }
}
