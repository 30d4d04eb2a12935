import type { LeaseId, ReplicaId, RequestId } from "../protocol/ids.ts";
import type { Dispatch, Rejection } from "./offer.ts";

/**
 * What the caller must now do; a pool performs no I/O. `dispatch` and `reject` are the one verdict
 * of an offer; `hedge` gives a request that has a lease a second one. `displace` asks for a dispatched request that has no token yet to be stopped there,
 * settled as `displaced` and offered again. `ask-prefixes` asks a replica to tell all that it has cached, since
 * something of it has been missed. `wake` asks for a call of `wake()` at an instant and
 * replaces any earlier one.
 */
export type PoolEffect =
  | ({ readonly kind: "dispatch" } & GivenLease)
  | ({ readonly kind: "hedge" } & GivenLease)
  | { readonly kind: "reject"; readonly requestId: RequestId; readonly rejection: Rejection }
  | { readonly kind: "displace"; readonly requestId: RequestId; readonly leaseId: LeaseId }
  | { readonly kind: "ask-prefixes"; readonly replicaId: ReplicaId }
  | { readonly kind: "wake"; readonly atMs: number };

interface GivenLease {
  readonly requestId: RequestId;
  readonly leaseId: LeaseId;
  readonly dispatch: Dispatch;
}
