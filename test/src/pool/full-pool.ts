import type { Offer } from "../../../src/pool/offer.ts";
import type { PoolEffect } from "../../../src/pool/pool-effect.ts";
import type { Pool, PoolOptions } from "../../../src/pool/pool.ts";
import type { LeaseId } from "../../../src/protocol/ids.ts";
import { RequestId, TenantId } from "../../../src/protocol/ids.ts";
import type { Rejection } from "../../../src/pool/offer.ts";
import { anOffer, aReadyPool, only } from "../../support/pool-builders.ts";

/** The one lease that effects give; throws where there is none. */
export function leaseOf(effects: readonly PoolEffect[]): LeaseId {
  const [first] = only("dispatch", effects);
  if (first === undefined) throw new Error("Nobody was dispatched");
  return first.leaseId;
}

/** Names of the requests that were dispatched, in order. */
export function dispatched(effects: readonly PoolEffect[]): string[] {
  return only("dispatch", effects).map(({ requestId }) => String(requestId));
}

/** Why requests were refused, by name. */
export function refused(effects: readonly PoolEffect[]): Record<string, Rejection["reason"]> {
  return Object.fromEntries(
    only("reject", effects).map(({ requestId, rejection }) => [requestId, rejection.reason]),
  );
}

/** The offer of another tenant than everybody else's. */
export function anOfferOf(tenant: string, name: string, change: Partial<Offer> = {}): Offer {
  return anOffer(name, { tenantId: TenantId.parse(tenant), ...change });
}

/** A pool at instant 0 whose one sequence is taken by the request `first`. */
export function aFullPool(
  change: {
    readonly first?: Partial<Offer>;
    readonly queueMax?: number;
    readonly pool?: Partial<PoolOptions>;
  } = {},
): { readonly pool: Pool; readonly leaseId: LeaseId } {
  const { first, queueMax = 100, pool: options } = change;
  const pool = aReadyPool({
    hello: { sequencesMax: 1 },
    configuration: { queueMax },
    ...(options !== undefined && { pool: options }),
  });
  const leaseId = leaseOf(pool.offer(anOffer("first", first), 0));
  return { pool, leaseId };
}

export const nameOf = (name: string): RequestId => RequestId.parse(name);
