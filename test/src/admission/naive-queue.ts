import type { FairAccount, WaitingRequest } from "../../../src/admission/waiting-request.ts";

interface NaiveEntry {
  readonly request: WaitingRequest;
  band: number;
  nextBandAtMs: number;
  readonly added: number;
}

interface NaiveTenant {
  counter: number;
  /** What of it is for requests that have not ended. */
  inFlight: number;
  requestsInFlight: number;
  /** When it last became active. */
  activated: number;
}

interface NaiveRank {
  floor: number;
  /** Every tenant that was ever seen; none is forgotten. */
  readonly tenants: Map<string, NaiveTenant>;
}

const BAND_MS = 2_000;

/** The order of a `WaitQueue` said plainly: it scans and sorts all that there is, at every call. */
export class NaiveQueue {
  #entries: NaiveEntry[] = [];
  readonly #ranks = new Map<string, NaiveRank>();
  #events = 0;

  add(request: WaitingRequest): void {
    const { band, sinceMs } = request;
    this.#events += 1;
    this.#activate(request, band);
    const nextBandAtMs = sinceMs + BAND_MS;
    this.#entries.push({ request, band, nextBandAtMs, added: this.#events });
    this.#raise();
  }

  remove(requestId: string): void {
    this.#entries = this.#entries.filter(({ request }) => request.requestId !== requestId);
    this.#raise();
  }

  take(requestId: string, costMs: number): void {
    const entry = this.#entries.find(({ request }) => request.requestId === requestId);
    if (entry === undefined) return;
    const tenant = this.#tenantOf(entry.request, entry.band);
    tenant.counter += costMs / entry.request.weight;
    tenant.inFlight += costMs / entry.request.weight;
    tenant.requestsInFlight += 1;
    this.#raise();
    this.remove(requestId);
  }

  /** Of a request that did not wait. */
  charge(request: FairAccount, costMs: number): void {
    const { weight } = request;
    this.#move(request, { counter: costMs / weight, inFlight: costMs / weight, requests: 1 });
  }

  correct(request: FairAccount, deltaMs: number): void {
    const { weight } = request;
    this.#move(request, { counter: deltaMs / weight, inFlight: deltaMs / weight, requests: 0 });
  }

  settle(
    request: FairAccount,
    { chargedMs, actualMs }: { readonly chargedMs: number; readonly actualMs: number },
  ): void {
    const { weight } = request;
    const counter = (actualMs - chargedMs) / weight;
    this.#move(request, { counter, inFlight: -chargedMs / weight, requests: -1 });
  }

  #move(
    request: FairAccount,
    by: { readonly counter: number; readonly inFlight: number; readonly requests: number },
  ): void {
    const rank = this.#rankOf(request.isInProfile, request.band);
    const tenant = this.#tenantOf(request, request.band);
    if (!this.#isActive(request, request.band))
      tenant.counter = Math.max(tenant.counter, rank.floor);
    tenant.counter += by.counter;
    tenant.inFlight += by.inFlight;
    tenant.requestsInFlight += by.requests;
    const hasActive = this.#entries.some((entry) =>
      this.#isIn(entry, request.isInProfile, request.band),
    );
    if (!hasActive) rank.floor = Math.max(rank.floor, settledOf(tenant));
    this.#raise();
  }

  /** The order of all, as if each was served in its turn; of a tenant the first four in each rank. */
  order(nowMs: number): string[] {
    this.#promote(nowMs);
    const order: string[] = [];
    for (const isInProfile of [true, false]) {
      for (let band = 0; band < 8; band++) {
        const heads = new Map<string, WaitingRequest[]>();
        for (const entry of this.#entries) {
          if (!this.#isIn(entry, isInProfile, band)) continue;
          const { tenantId } = entry.request;
          heads.set(tenantId, [...(heads.get(tenantId) ?? []), entry.request]);
        }
        const turns = [...heads].map(([tenantId, requests]) => ({
          ...this.#tenantOf({ tenantId, isInProfile }, band),
          requests: requests.toSorted((a, b) => a.deadlineAtMs - b.deadlineAtMs).slice(0, 4),
        }));
        for (;;) {
          const left = turns.filter(({ requests }) => requests.length > 0);
          const [next] = left.toSorted(
            (a, b) => a.counter - b.counter || a.activated - b.activated,
          );
          const request = next?.requests.shift();
          if (next === undefined || request === undefined) break;
          order.push(request.requestId);
          next.counter += request.costMs / request.weight;
        }
      }
    }
    return order;
  }

  #promote(nowMs: number): void {
    for (;;) {
      const due = this.#entries.filter(
        ({ band, nextBandAtMs }) => band > 0 && nextBandAtMs <= nowMs,
      );
      const [next] = due.toSorted((a, b) => a.nextBandAtMs - b.nextBandAtMs || a.added - b.added);
      if (next === undefined) return;
      // It leaves one rank before it enters the other, and the floors move at both steps.
      this.#entries = this.#entries.filter((entry) => entry !== next);
      this.#raise();
      next.band -= 1;
      next.nextBandAtMs += BAND_MS;
      this.#events += 1;
      this.#activate(next.request, next.band);
      this.#entries.push(next);
      this.#raise();
    }
  }

  #activate(request: WaitingRequest, band: number): void {
    if (this.#isActive(request, band)) return;
    const tenant = this.#tenantOf(request, band);
    tenant.counter = Math.max(tenant.counter, this.#rankOf(request.isInProfile, band).floor);
    tenant.activated = this.#events;
  }

  #isActive({ tenantId, isInProfile }: FairAccount, band: number): boolean {
    return this.#entries.some(
      (entry) => entry.request.tenantId === tenantId && this.#isIn(entry, isInProfile, band),
    );
  }

  #isIn({ request, band }: NaiveEntry, isInProfile: boolean, rankBand: number): boolean {
    return request.isInProfile === isInProfile && band === rankBand;
  }

  #raise(): void {
    const least = new Map<NaiveRank, NaiveTenant>();
    for (const { request, band } of this.#entries) {
      const rank = this.#rankOf(request.isInProfile, band);
      const tenant = this.#tenantOf(request, band);
      const before = least.get(rank);
      const isLess =
        before === undefined ||
        tenant.counter < before.counter ||
        (tenant.counter === before.counter && tenant.activated < before.activated);
      if (isLess) least.set(rank, tenant);
    }
    for (const [rank, tenant] of least) rank.floor = Math.max(rank.floor, settledOf(tenant));
  }

  #rankOf(isInProfile: boolean, band: number): NaiveRank {
    const key = `${isInProfile}-${band}`;
    const rank = this.#ranks.get(key) ?? { floor: 0, tenants: new Map() };
    this.#ranks.set(key, rank);
    return rank;
  }

  #tenantOf(
    { tenantId, isInProfile }: { readonly tenantId: string; readonly isInProfile: boolean },
    band: number,
  ): NaiveTenant {
    const { tenants } = this.#rankOf(isInProfile, band);
    const tenant = tenants.get(tenantId) ?? {
      counter: 0,
      inFlight: 0,
      requestsInFlight: 0,
      activated: 0,
    };
    tenants.set(tenantId, tenant);
    return tenant;
  }
}

/** Without the one request in flight, if it is the only one. */
function settledOf({ counter, inFlight, requestsInFlight }: NaiveTenant): number {
  return requestsInFlight === 1 ? counter - inFlight : counter;
}
