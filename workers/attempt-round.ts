import type { ReplicaId } from "../src/protocol/ids.ts";
import type { HeldLease } from "./acquire.ts";
import { AttemptPatience } from "./attempt-patience.ts";
import type { Attempt, AttemptCopy, Serving } from "./try-replica.ts";
import { attemptLimitOf, tryReplica } from "./try-replica.ts";

/** How a round ended, and which replicas were asked in it. */
export interface RoundEnd {
  readonly attempt: Attempt;
  readonly replicaIds: readonly ReplicaId[];
}

interface RunningCopy extends AttemptCopy {
  readonly abort: AbortController;
  readonly isHedge: boolean;
  /** After so long it is late. */
  readonly limitMs: number;
  readonly beganAtMs: number;
}

/**
 * One attempt at a call: a replica, and once that is late perhaps a second one beside it. Whichever has
 * something for the client first answers it, and the other one is stopped at that instant, so that the
 * client never sees two answers.
 *
 * A late copy is not given up for a second one, since it may still win. Where the pool sends no second
 * copy, or that is late as well, the round is given up if another replica could do better.
 */
export class AttemptRound {
  readonly #serving: Serving;
  /** Copies that may still answer. */
  readonly #racing = new Set<RunningCopy>();
  readonly #replicaIds: ReplicaId[] = [];
  readonly #over: Promise<RoundEnd>;
  #resolve: (end: RoundEnd) => void = () => {};
  #reject: (error: unknown) => void = () => {};
  #attemptsLeft: number;
  /** Copies whose lease is not settled yet. */
  #open = 0;
  #patience: AttemptPatience | undefined;
  #answering: RunningCopy | undefined;
  #end: Attempt | undefined;

  /** `attemptsMax` replicas may be asked, in this round and after it; at least one. */
  constructor(serving: Serving, attemptsMax: number) {
    this.#serving = serving;
    this.#attemptsLeft = attemptsMax;
    this.#over = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  /** Resolves when every lease of the round is settled. */
  async run(lease: HeldLease): Promise<RoundEnd> {
    this.#begin(lease, false);
    try {
      return await this.#over;
    } finally {
      this.#patience?.end();
    }
  }

  #begin(lease: HeldLease, isHedge: boolean): void {
    const { call } = this.#serving;
    const abort = new AbortController();
    const copy: RunningCopy = {
      lease,
      isHedge,
      abort,
      signal: abort.signal,
      standing: "racing",
      limitMs: attemptLimitOf(call, lease.dispatch),
      beganAtMs: Date.now(),
      answers: () => this.#answers(copy),
      leaves: () => this.#leaves(copy),
    };
    this.#racing.add(copy);
    this.#replicaIds.push(lease.dispatch.replicaId);
    this.#attemptsLeft -= 1;
    this.#open += 1;
    this.#watch(copy);
    tryReplica(this.#serving, copy).then(
      (attempt) => this.#ended(attempt),
      (error: unknown) => this.#reject(error),
    );
  }

  /**
   * Waits for a copy to begin, and for no other any longer. The last that may be asked has all the time,
   * unless its tenant has set one.
   */
  #watch(copy: RunningCopy): void {
    this.#patience?.end();
    this.#patience = undefined;
    const { isStreamed, tenant } = this.#serving.call;
    const setMs = isStreamed ? tenant.timeouts?.firstTokenMs : undefined;
    if (this.#attemptsLeft <= 0 && setMs === undefined) return;
    const patience = new AttemptPatience({
      limitMs: (setMs ?? copy.limitMs) - (Date.now() - copy.beganAtMs),
      isStrict: setMs !== undefined,
      prospects: () => copy.lease.prospects(this.#replicaIds),
      hedge: () => this.#hedge(copy),
    });
    this.#patience = patience;
    const giveUp = (): void => this.#stop(() => "late");
    patience.signal.addEventListener("abort", giveUp, { once: true });
  }

  /** Sends a second copy beside the first, if the pool finds that worth its work. */
  async #hedge(late: RunningCopy): Promise<boolean> {
    const { call, heads } = this.#serving;
    if (!call.isStreamed || late.isHedge || this.#replicaIds.length > 1 || heads.isFull)
      return false;
    const lease = await late.lease.hedge();
    if (lease === undefined) return false;
    if (!this.#racing.has(late) || this.#answering !== undefined) {
      await lease.settle({ kind: "overtaken" });
      return true;
    }
    this.#begin(lease, true);
    return true;
  }

  /** A copy has something for the client: no other one may have any more. */
  #answers(copy: RunningCopy): void {
    if (this.#answering !== undefined) return;
    this.#answering = copy;
    this.#patience?.end();
    // Who was waited for until another one came is late; who came to help has merely lost.
    this.#stop(({ isHedge }) => (isHedge ? "overtaken" : "late"));
  }

  /** A copy can not answer, or has. Tells whether others still can. */
  #leaves(copy: RunningCopy): ReturnType<AttemptCopy["leaves"]> {
    this.#racing.delete(copy);
    const [other] = this.#racing;
    if (other?.standing === "racing" && this.#answering === undefined) this.#watch(other);
    const isLastCopy = other === undefined;
    if (isLastCopy) this.#patience?.end();
    const hasAttemptsLeft = this.#attemptsLeft > 0;
    return { isLastCopy, isLastAttempt: isLastCopy && !hasAttemptsLeft, hasAttemptsLeft };
  }

  #stop(standingOf: (copy: RunningCopy) => AttemptCopy["standing"]): void {
    for (const copy of this.#racing) {
      if (copy === this.#answering || copy.standing !== "racing") continue;
      copy.standing = standingOf(copy);
      copy.abort.abort(new Error(`The attempt is ${copy.standing}`));
    }
  }

  #ended(attempt: Attempt): void {
    this.#open -= 1;
    const isFinal = attempt.kind !== "failed" || !attempt.fault.isRetryable;
    if (this.#end === undefined || isFinal) this.#end = attempt;
    // What one replica says of the request itself, another one would say as well.
    if (isFinal) this.#stop(() => "overtaken");
    if (this.#open > 0) return;
    this.#resolve({ attempt: this.#end, replicaIds: this.#replicaIds });
  }
}
