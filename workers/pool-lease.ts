import { RpcTarget } from "cloudflare:workers";
import type {
  Dispatch,
  Offer,
  Outcome,
  PrefillOutcome,
  Prospects,
  Rejection,
} from "../src/pool/offer.ts";
import type { SaidLimit } from "../src/protocol/said-limit.ts";
import type { ReplicaId } from "../src/protocol/ids.ts";

/** The pool's verdict on an offer. */
export type Acquired =
  | { readonly kind: "dispatched"; readonly dispatch: Dispatch; readonly lease: PoolLease }
  | { readonly kind: "rejected"; readonly rejection: Rejection };

/** A second copy of a dispatched request, with a lease of its own. */
export interface Hedged {
  readonly dispatch: Dispatch;
  readonly lease: PoolLease;
}

/** A lease's side of the pool. */
export interface LeaseLine {
  readonly prefilled: (outcome: PrefillOutcome) => void;
  readonly started: (firstTokenAfterMs: number) => void;
  readonly stalled: () => void;
  readonly limited: (said: SaidLimit) => void;
  readonly prospects: (triedReplicaIds: readonly ReplicaId[]) => Prospects | undefined;
  readonly hedge: (offer: Offer) => Hedged | undefined;
  /** Called once. */
  readonly settled: (outcome: Outcome) => void;
  /** True when the slot is taken back, false when the lease ended otherwise. */
  readonly displaced: Promise<boolean>;
}

/**
 * A dispatched request's hold on its slot, given to the caller of `PoolObject.acquire`.
 *
 * The slot comes back when the lease is settled, or disposed of: the runtime disposes of it when
 * the caller's execution context ends for whatever reason, so a crash cannot leak a slot. Keep the
 * context open (`ctx.waitUntil`) for as long as the request runs.
 */
export class PoolLease extends RpcTarget {
  readonly #line: LeaseLine;
  #isSettled = false;

  constructor(line: LeaseLine) {
    super();
    this.#line = line;
  }

  /** Says how it went with a prompt that another replica was to compute first. */
  async prefilled(outcome: PrefillOutcome): Promise<void> {
    if (!this.#isSettled) this.#line.prefilled(outcome);
  }

  /** Says that the first token has come, so long after the dispatch. */
  async started(firstTokenAfterMs: number): Promise<void> {
    if (!this.#isSettled) this.#line.started(firstTokenAfterMs);
  }

  /**
   * Waits until the pool takes the slot back for somebody to whom it was guaranteed: the request is
   * then to be stopped there and offered again. False once the lease has ended otherwise.
   */
  async displaced(): Promise<boolean> {
    return this.#line.displaced;
  }

  /** Says that the stream has paused for much too long. */
  async stalled(): Promise<void> {
    if (!this.#isSettled) this.#line.stalled();
  }

  /** Says what its server told of its limits. */
  async limited(said: SaidLimit): Promise<void> {
    if (!this.#isSettled) this.#line.limited(said);
  }

  /** Tells what to hope for while no answer comes; of replicas that were tried before nothing. */
  async prospects(triedReplicaIds: readonly ReplicaId[]): Promise<Prospects | undefined> {
    return this.#line.prospects(triedReplicaIds);
  }

  /** Asks to send the request, as it stands now, to a second replica as well; `undefined`: better not. */
  async hedge(offer: Offer): Promise<Hedged | undefined> {
    return this.#isSettled ? undefined : this.#line.hedge(offer);
  }

  /** Says how the request ended. Only the first call counts. */
  async settle(outcome: Outcome): Promise<void> {
    this.#settleOnce(outcome);
  }

  [Symbol.dispose](): void {
    this.#settleOnce({ kind: "abandoned" });
  }

  #settleOnce(outcome: Outcome): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#line.settled(outcome);
  }
}
