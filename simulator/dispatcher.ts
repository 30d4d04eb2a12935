import type { Dispatch, Offer, Outcome, Rejection } from "../src/pool/offer.ts";
import type { EngineSignals } from "../src/protocol/engine-signals.ts";
import type { LeaseId, ReplicaId, RequestId } from "../src/protocol/ids.ts";
import type { ReplicaListener } from "./replica-link.ts";

/** What a gateway hears from whoever decides where its requests go. */
export interface VerdictListener {
  dispatched(requestId: RequestId, leaseId: LeaseId, dispatch: Dispatch): void;
  /** A late request was sent to a second replica as well. */
  hedged(requestId: RequestId, leaseId: LeaseId, dispatch: Dispatch): void;
  /** A late request is better given up where it is, and offered again. */
  hopeless(requestId: RequestId, leaseId: LeaseId): void;
  rejected(requestId: RequestId, rejection: Rejection): void;
  /** A slot is taken back: the request is to be stopped there and offered again. */
  displaced(requestId: RequestId, leaseId: LeaseId): void;
  /** Something of what a replica has cached has been missed: it is to tell all of it. */
  askPrefixes(replicaId: ReplicaId): void;
  /** Whoever was to decide is gone, and with it the request that waited there. */
  forgotten(requestId: RequestId): void;
}

/**
 * Decides where requests go: the real pool, or a policy to compare it with. Verdicts come by the
 * listener, at once or later; every offer gets exactly one, unless it is forgotten.
 */
export interface Dispatcher extends Omit<ReplicaListener, "events"> {
  offer(offer: Offer): void;
  withdraw(requestId: RequestId): void;
  started(leaseId: LeaseId, firstTokenAfterMs: number): void;
  /** A dispatched request has no token yet, `offer` being how it stands. A policy leaves it there. */
  late?(lease: { readonly leaseId: LeaseId; readonly replicaId: ReplicaId }, offer: Offer): void;
  settle(leaseId: LeaseId, outcome: Outcome): void;
  /** What a server that is not ours says of itself. A policy goes by its own count. */
  told?(replicaId: ReplicaId, said: EngineSignals): void;
  /** Throws when a law of its own is broken. */
  checkInvariants(): void;
}

/** Sees what is decided, and changes nothing of it. */
export interface DispatchWatch {
  /** A listener that hears what the given one does. */
  listener(listener: VerdictListener): VerdictListener;
  /** The same dispatcher, whose calls are seen. */
  dispatcher<Kind extends Dispatcher>(dispatcher: Kind): Kind;
}
