import { assert } from "../base/assert.ts";
import { DecayingAverage } from "../base/average.ts";
import type { ReplicaHello, ReplicaReport } from "../protocol/engine-api.ts";
import type { ReplicaId } from "../protocol/ids.ts";

/** A replica whose last report is older may be dead or cut off, so nothing is sent to it. */
export const REPORT_AGE_MS_MAX = 2_000;
/**
 * The speed assumed of a replica that has measured none. Modest, yet not so low that the replica
 * never gets the request that would teach it.
 */
const PREFILL_TOKENS_PER_SECOND_PRIOR = 1_000;
const HOLD_HALF_LIFE_MS = 60_000;

/** Why a replica gets requests, or does not: only a `ready` one does. */
export type ReplicaState = "ready" | "silent" | "draining" | "disconnected" | "removed";

/** What the configuration says of a replica. */
export interface ReplicaSettings {
  readonly replicaId: ReplicaId;
  readonly endpointUrl: string;
  /** Requests of ours that may be there at once, queued or running. */
  readonly requestsMax?: number;
}

/**
 * What we believe of one engine: its last report plus what we sent since.
 *
 * A report is up to one heartbeat old. Without the ledger of what it cannot know yet, a burst
 * inside one heartbeat would land whole on the replica that last looked idle.
 */
export class Replica {
  readonly replicaId: ReplicaId;
  #settings: ReplicaSettings;
  #removed = false;
  #connected = false;
  #hello: ReplicaHello | undefined;
  #report: ReplicaReport | undefined;
  #reportAtMs = 0;
  /** Of the last report on the present connection. */
  #sequence = 0;
  #outstanding = 0;
  /** Tokens of the dispatches that no report has acknowledged, by number, oldest first. */
  readonly #unreported = new Map<number, number>();
  #unreportedTokens = 0;
  #strangers = 0;
  readonly #holdMs = new DecayingAverage({ halfLifeMs: HOLD_HALF_LIFE_MS });

  constructor(settings: ReplicaSettings) {
    this.replicaId = settings.replicaId;
    this.#settings = settings;
  }

  get endpointUrl(): string {
    return this.#settings.endpointUrl;
  }

  get isRemoved(): boolean {
    return this.#removed;
  }

  /** Requests of ours that are there or on their way. */
  get outstanding(): number {
    return this.#outstanding;
  }

  /**
   * Requests there that hold no lease of ours: sent by the pool's previous life, or ended here but
   * not yet there. They take slots all the same.
   */
  get strangers(): number {
    return this.#strangers;
  }

  get lastReport(): ReplicaReport | undefined {
    return this.#report;
  }

  /** How many more requests may be sent. Zero until the replica has said what it can hold. */
  get freeSlots(): number {
    if (this.#hello === undefined || this.#hello.sequencesMax === 0) return 0;
    const held = this.#hello.sequencesMax + this.#hello.queueMax;
    const slots = Math.min(held, this.#settings.requestsMax ?? held);
    return Math.max(0, slots - this.#outstanding - this.#strangers);
  }

  /** Requests there for each sequence that can run: 1 when all sequences are taken. */
  get loadRatio(): number {
    return (this.#outstanding + this.#strangers) / Math.max(1, this.#hello?.sequencesMax ?? 0);
  }

  /** Sequences that end in a millisecond when all run; `undefined` before one was seen to end. */
  get releasesPerMs(): number | undefined {
    const holdMs = this.#holdMs.value;
    if (holdMs === undefined || this.#hello === undefined) return undefined;
    return this.#hello.sequencesMax / Math.max(1, holdMs);
  }

  stateAt(nowMs: number): ReplicaState {
    if (this.#removed) return "removed";
    if (!this.#connected) return "disconnected";
    if (this.#report === undefined || nowMs - this.#reportAtMs > REPORT_AGE_MS_MAX) return "silent";
    return this.#report.draining ? "draining" : "ready";
  }

  /** True while the replica is in use but has not (or not lately) been heard of. */
  isExpected(nowMs: number): boolean {
    const state = this.stateAt(nowMs);
    return state === "disconnected" || state === "silent";
  }

  /**
   * Expected time until a prompt of so many tokens has its first token here: everything that is
   * queued before it at the measured prefill rate, one step, and, while all sequences are taken,
   * the wait for one to end. Only a replica that has reported can be asked.
   */
  predictedWaitMs(promptTokens: number): number {
    const report = this.#report;
    assert(report !== undefined, "a forecast needs a report");
    const tokensPerSecond = report.prefillTokensPerSecond || PREFILL_TOKENS_PER_SECOND_PRIOR;
    const aheadTokens = report.queuedUncachedTokens + this.#unreportedTokens;
    const prefillMs = ((aheadTokens + promptTokens) / tokensPerSecond) * 1_000;
    return prefillMs + report.stepMs + this.#sequenceWaitMs();
  }

  /**
   * The same if nothing were ahead of the prompt, at the rate that was measured last. `undefined`
   * before one was: what is only assumed must not turn a request away for good.
   */
  idleWaitMs(promptTokens: number): number | undefined {
    const { prefillTokensPerSecond = 0, stepMs = 0 } = this.#report ?? {};
    if (prefillTokensPerSecond === 0) return undefined;
    return (promptTokens / prefillTokensPerSecond) * 1_000 + stepMs;
  }

  /** Follows the configuration. Another URL is another process, which has to say hello first. */
  configure(settings: ReplicaSettings): void {
    if (settings.endpointUrl !== this.#settings.endpointUrl) this.disconnect();
    this.#settings = settings;
    this.#removed = false;
  }

  /** Takes the replica out of service; what runs there may finish. It would have to report anew. */
  remove(): void {
    this.#removed = true;
    this.#report = undefined;
    this.disconnect();
  }

  /**
   * Notes who has dialled in. It may be another process than before: whatever we sent to the old
   * one died with it, so its slots, the ledger and its last report are void. The same process is
   * what it was, so that a connection that breaks for a moment costs nothing.
   */
  connect(hello: ReplicaHello): { readonly restarted: boolean } {
    const restarted = this.#hello !== undefined && this.#hello.instanceId !== hello.instanceId;
    this.#hello = hello;
    this.#connected = true;
    this.#sequence = 0;
    if (restarted) {
      this.#report = undefined;
      this.#outstanding = 0;
      this.#strangers = 0;
      this.#unreported.clear();
      this.#unreportedTokens = 0;
    }
    return { restarted };
  }

  /** Nothing more is sent here; requests under way keep their slots, since their streams may live. */
  disconnect(): void {
    this.#connected = false;
  }

  /**
   * Takes in a report. Returns false for one that is not newer than the last or that comes from a
   * connection which is gone: such a report changes nothing.
   */
  report(
    report: ReplicaReport,
    options: { readonly epoch: string; readonly nowMs: number },
  ): boolean {
    if (!this.#connected || report.sequence <= this.#sequence) return false;
    this.#sequence = report.sequence;
    this.#report = report;
    this.#reportAtMs = options.nowMs;
    if (report.lastDispatch?.epoch === options.epoch) {
      this.#acknowledge(report.lastDispatch.number);
    }
    const ours = this.#outstanding - this.#unreported.size;
    this.#strangers = Math.max(0, report.queuedRequests + report.runningRequests - ours);
    return true;
  }

  /**
   * Takes a slot for a request. The number of its dispatch is greater than all that went before in
   * this epoch, even if the replica restarted or was out of the configuration meanwhile.
   */
  take(sent: { readonly dispatchNumber: number; readonly promptTokens: number }): void {
    assert(this.freeSlots > 0, "a slot is taken only while one is free");
    this.#outstanding += 1;
    this.#unreported.set(sent.dispatchNumber, sent.promptTokens);
    this.#unreportedTokens += sent.promptTokens;
  }

  /** Gives back the slot of a dispatch, whatever became of it. */
  release(dispatchNumber: number): void {
    this.#outstanding -= 1;
    this.#forget(dispatchNumber);
  }

  /** Learns how long a request that ran to its end held its sequence. */
  learnHold(holdMs: number, nowMs: number): void {
    this.#holdMs.add(holdMs, nowMs);
  }

  checkInvariants(): void {
    assert(this.#outstanding >= this.#unreported.size, "the ledger holds only requests under way");
    assert(this.#strangers >= 0, "nobody holds a negative slot");
    let tokens = 0;
    let before = 0;
    for (const [number, promptTokens] of this.#unreported) {
      assert(number > before, "the ledger is in order of dispatch");
      before = number;
      tokens += promptTokens;
    }
    assert(tokens === this.#unreportedTokens, "the ledger's sum is the sum of its entries");
  }

  #acknowledge(number: number): void {
    for (const unreported of this.#unreported.keys()) {
      if (unreported > number) break;
      this.#forget(unreported);
    }
  }

  #forget(number: number): void {
    this.#unreportedTokens -= this.#unreported.get(number) ?? 0;
    this.#unreported.delete(number);
  }

  #sequenceWaitMs(): number {
    const sequencesMax = this.#hello?.sequencesMax ?? 0;
    const ahead = this.#outstanding + this.#strangers - sequencesMax + 1;
    const releasesPerMs = this.releasesPerMs;
    return ahead <= 0 || releasesPerMs === undefined ? 0 : ahead / releasesPerMs;
  }
}
