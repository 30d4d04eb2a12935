import type { LeaseId } from "../protocol/ids.ts";
import type { ReplicaSet } from "../replicas/replica-set.ts";
import type { Lease, LeasedPrefill } from "./lease-book.ts";
import type { Mechanisms } from "./mechanisms.ts";
import type { PrefillOutcome } from "./offer.ts";
import type { PoolRequest } from "./pool-request.ts";
import type { Split } from "./splits.ts";

/** Slots of prompts that are computed for another replica: each is given back once, at the latest with its request's lease. */
export class PrefillBookings {
  readonly #replicas: ReplicaSet;
  readonly #mechanisms: Mechanisms;

  constructor(replicas: ReplicaSet, mechanisms: Mechanisms) {
    this.#replicas = replicas;
    this.#mechanisms = mechanisms;
  }

  /** Takes a slot for a request's prompt, which holds it by its lease. */
  take(
    { offer, promptTokens }: PoolRequest,
    { replica, foundTokens, cachedTokens, isLateAFault }: Split,
    place: {
      readonly leaseId: LeaseId;
      readonly dispatchNumber: number;
      readonly ownCachedTokens: number;
    },
    nowMs: number,
  ): LeasedPrefill {
    const { tenantId, modelId, chain } = offer;
    const work = { promptTokens, cachedTokens, expectedOutputTokens: 0, outputTokensMax: 1 };
    // It decodes nothing, so that it has no pace that others could spoil.
    const unpaced = { tpotMs: undefined, tbtMs: undefined };
    const { leaseId, dispatchNumber, ownCachedTokens } = place;
    replica.take({ leaseId, dispatchNumber, tenantId, modelId, ...work, ...unpaced }, nowMs);
    if (chain !== undefined) replica.prefixes.note(chain, { isForeign: false, nowMs });
    const { replicaId } = replica;
    const known = { foundTokens, ownCachedTokens, isLateAFault };
    return { replicaId, dispatchNumber, ...known, isOver: false };
  }

  /** How it went with a lease's prompt; only the first word counts. */
  end(lease: Lease, outcome: PrefillOutcome, nowMs: number): void {
    const { prefill } = lease;
    if (prefill === undefined || prefill.isDone !== undefined) return;
    prefill.isDone = outcome.kind === "done";
    // Then all of it is computed where it is answered.
    if (!prefill.isDone && !lease.isLost) {
      this.#replicas.get(lease.replicaId)?.recompute(lease.dispatchNumber, prefill.ownCachedTokens);
    }
    if (prefill.isOver) return;
    this.#learn(prefill, outcome, nowMs);
    this.release(prefill);
  }

  #learn(prefill: LeasedPrefill, outcome: PrefillOutcome, nowMs: number): void {
    const replica = this.#replicas.get(prefill.replicaId);
    const { kind } = outcome;
    if (kind === "done") replica?.prefixes.learnHit(prefill.foundTokens, outcome.cachedTokens);
    const isAnswer = kind === "done" || kind === "refused";
    if (isAnswer && replica !== undefined) replica.state.answeredAtMs = nowMs;
    if (!this.#mechanisms.ejection) return;
    if (kind === "done") this.#replicas.succeeded(prefill, nowMs);
    const isFault = kind === "failed" || (kind === "late" && prefill.isLateAFault);
    if (isFault) this.#replicas.failed(prefill, nowMs);
  }

  /** Gives the slot back, unless it was. */
  release(prefill: LeasedPrefill | undefined): void {
    if (prefill?.isOver !== false) return;
    prefill.isOver = true;
    this.#replicas.release(prefill);
  }
}
