import { PoolDispatcher } from "../pool-dispatcher.ts";
import type { Dispatcher, DispatchWatch, VerdictListener } from "../dispatcher.ts";

/** Adds up what each tenant's requests were predicted to cost when they were sent: in this, shares are shares. */
export class CostWatch implements DispatchWatch {
  readonly #fromMs: number;
  readonly #costMs = new Map<string, number>();
  #dispatcher: PoolDispatcher | undefined;

  /** What is sent before `fromMs` does not count. */
  constructor(fromMs: number) {
    this.#fromMs = fromMs;
  }

  costMsOf(tenantName: string): number {
    return this.#costMs.get(tenantName) ?? 0;
  }

  listener(listener: VerdictListener): VerdictListener {
    return {
      ...listener,
      dispatched: (requestId, leaseId, dispatch) => {
        const lease = this.#dispatcher?.pool.state.leases.get(leaseId);
        if (lease !== undefined && lease.dispatchedAtMs >= this.#fromMs) {
          this.#costMs.set(lease.tenantId, this.costMsOf(lease.tenantId) + lease.costMs);
        }
        listener.dispatched(requestId, leaseId, dispatch);
      },
    };
  }

  dispatcher<Kind extends Dispatcher>(dispatcher: Kind): Kind {
    if (dispatcher instanceof PoolDispatcher) this.#dispatcher = dispatcher;
    return dispatcher;
  }
}
