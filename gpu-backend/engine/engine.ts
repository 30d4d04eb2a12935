import { assert } from "../../src/base/assert.ts";
import type { Batch, BatchRow } from "./batch.ts";
import { checkGenerateRequest } from "./check-generate-request.ts";
import { type EngineCounters, EventCounter } from "./engine-counters.ts";
import { type EngineLoad, measureLoad } from "./engine-load.ts";
import type { EngineOptions } from "./engine-options.ts";
import { fetchFar } from "./fetch-far.ts";
import type { FinishReason, GenerateEvent, GenerateRequest } from "./generate-request.ts";
import { IntakeLimits } from "./intake-limits.ts";
import type { KvEvent } from "./kv-cache/kv-event-log.ts";
import type { PrefixChanges } from "./kv-cache/prefix-names.ts";
import type { KvLeases } from "./kv-cache/kv-leases.ts";
import { LiveRequests } from "./live-requests.ts";
import { KvCache } from "./kv-cache/kv-cache.ts";
import { TierChoice } from "./kv-cache/kv-tier.ts";
import { type Ending, PendingStep } from "./pending-step.ts";
import type { ComputedRow, RowResult } from "./row-result.ts";
import { compareArrival, Scheduler } from "./scheduler.ts";
import type { Plan, TurnedAway } from "./plan.ts";
import { Prefills } from "./prefills.ts";
import { Sequence } from "./sequence.ts";
import { NO_DRAFTS } from "./speculation/draft-counter.ts";
import type { DraftWish } from "./speculation/draft-wishes.ts";
import { Speculation } from "./speculation/speculation.ts";
import type { StepForecast } from "../../src/step-cost/step-model.ts";
import type { TokenConstraint } from "./token-constraint.ts";

/**
 * Serves requests step by step: plan, execute elsewhere, then commit or roll back.
 *
 * At most one step is pending, and a plan counts nothing as computed: a step either happens whole, or
 * the same tokens are planned again. Every submitted request gets exactly one of
 * `finished`, `refused` and `failed`.
 */
export class Engine {
  readonly #options: EngineOptions;
  readonly #limits: IntakeLimits;
  readonly #kvCache: KvCache;
  readonly #scheduler: Scheduler;
  readonly #requests = new LiveRequests();
  readonly #eventCounter = new EventCounter();
  readonly #prefills: Prefills;
  readonly #speculation: Speculation | undefined;
  #pendingStep: PendingStep | undefined;
  #isDraining = false;
  #arrivals = 0;
  #promptTokens = 0;
  #computedTokens = 0;

  constructor(options: EngineOptions) {
    this.#options = options;
    const { kvTier, speculation, forecast, chunkedPrefill = true } = options;
    this.#kvCache = new KvCache({ ...options, tier: kvTier && new TierChoice(kvTier, options) });
    this.#prefills = new Prefills(this.#kvCache, options.prefixCache);
    const { sequenceBlocksMax } = this.#kvCache;
    this.#limits = new IntakeLimits({ ...options, chunkedPrefill, sequenceBlocksMax });
    this.#speculation = speculation && new Speculation(speculation, forecast);
    this.#scheduler = new Scheduler(this.#kvCache, {
      compareUrgency: compareArrival,
      keepsTbt: false,
      kvAdmission: "known",
      ...options,
      chunkedPrefill,
      speculation: this.#speculation,
    });
  }

  /** What other engines copy of the prefix cache. It ends by itself, and before anybody here lacks room. */
  get kvLeases(): KvLeases {
    return this.#kvCache.leases;
  }

  /** The longest sequence that is served, prompt and output together. */
  get sequenceTokensMax(): number {
    return this.#limits.sequenceTokensMax;
  }

  /**
   * Takes a request, or refuses it at once. Its id must not be that of a live request. The constraint is
   * what the request's own was compiled to, and has accepted its emitted tokens; from now on the engine
   * disposes of it.
   */
  submit(request: GenerateRequest, nowMs: number, constraint?: TokenConstraint): GenerateEvent[] {
    assert(this.#requests.find(request.id) === undefined, `Request ${request.id} is live already`);
    checkGenerateRequest(request);
    const reason = this.#isDraining
      ? "draining"
      : this.#limits.reasonToRefuse(request, { nowMs, liveRequests: this.#requests.count });
    if (reason !== undefined) {
      constraint?.dispose();
      return this.#eventCounter.count([{ kind: "refused", id: request.id, reason }]);
    }
    this.#arrivals += 1;
    const sequence = new Sequence({
      request,
      arrivalNumber: this.#arrivals,
      arrivedAtMs: nowMs,
      outputTokensMax: this.#limits.outputTokensMax(request),
      hashing: this.#options,
      ...(constraint !== undefined && { constraint }),
    });
    if (this.#prefills.hasNothingToDo(sequence)) {
      sequence.dispose();
      return this.#eventCounter.count([this.#prefills.finish(sequence, "length")]);
    }
    this.#expectHit(sequence);
    this.#requests.add(sequence);
    this.#scheduler.enqueue(sequence);
    fetchFar(sequence, { kvCache: this.#kvCache, kvTier: this.#options.kvTier }, nowMs);
    return [];
  }

  /**
   * Lets a request run whose KV has come from elsewhere into the prefix cache. It takes its place in
   * the queue as if it had never waited for that. Nothing happens if it awaits none, or has ended.
   */
  kvArrived(id: string): void {
    const sequence = this.#requests.find(id);
    if (sequence?.awaitsKv !== true) return;
    sequence.kvArrived();
    this.#expectHit(sequence);
  }

  /**
   * Takes a guess of how a running request's output goes on, for the next plan to verify if that pays.
   * Nothing happens if the request has ended, or nothing is speculated.
   */
  offerDrafts(id: string, tokenIds: readonly number[]): void {
    const sequence = this.#requests.find(id);
    if (sequence !== undefined) this.#speculation?.offer(sequence, tokenIds);
  }

  /** Whom to ask a draft model for before the next plan, by what a step of it takes. */
  draftWishes(draft: StepForecast): DraftWish[] {
    return this.#speculation?.draftWishes(this.#scheduler.running, draft) ?? [];
  }

  /** Counts the end of a request that never came to be submitted. */
  turnAway(ending: TurnedAway): GenerateEvent[] {
    return this.#eventCounter.count([ending]);
  }

  /**
   * Ends a request whose client is gone. If a pending step uses its blocks it ends with that step, and
   * the event comes from `commit` or `rollback`. Nothing happens if it has ended already.
   */
  cancel(id: string): GenerateEvent[] {
    const sequence = this.#requests.find(id);
    if (sequence === undefined) return [];
    if (this.#pendingStep?.includes(id) === true) {
      this.#pendingStep.cancelWithStep(id);
      return [];
    }
    return this.#eventCounter.count([this.#finish(sequence, "cancelled")]);
  }

  /**
   * Refuses what is too late, and decides what the next step computes. What was spent on it already, on
   * drafts, counts as a part of it.
   */
  plan(nowMs: number, spentMs = 0): Plan {
    assert(this.#pendingStep === undefined, "A step is pending: commit it or roll it back first");
    this.kvLeases.expire(nowMs);
    this.#prefills.nowMs = nowMs;
    const events = this.#scheduler.takeLate(nowMs).map((sequence): GenerateEvent => {
      this.#forget(sequence);
      return { kind: "refused", id: sequence.id, reason: "deadline-passed" };
    });
    const batch = this.#scheduler.plan(nowMs, spentMs);
    if (batch !== undefined) this.#pendingStep = new PendingStep(batch);
    return { batch, events: this.#eventCounter.count(events) };
  }

  /**
   * Applies an executed step: its rows are computed, and each brings what it was asked for.
   * `results` has one a row, in order; a failed one ends its request and no other, and what that
   * has computed is never a prefix hit again.
   */
  commit(batch: Batch, results: readonly RowResult[]): GenerateEvent[] {
    const outcomes = this.#pendingStepOf(batch).outcomes(results);
    this.#pendingStep = undefined;
    const events = batch.rows.flatMap((row, index) => {
      const sequence = this.#requests.of(row.sequenceId);
      const outcome = outcomes[index];
      assert(outcome !== undefined, "Every row has an outcome");
      if (outcome.kind === "computed") return this.#advance(sequence, row, outcome);
      return [this.#end(sequence, outcome)];
    });
    return this.#eventCounter.count(events);
  }

  /**
   * Gives up a step that failed. Nothing is computed: the slots of its tokens are void, those before
   * them stand, and the next plan computes the same tokens again.
   */
  rollback(batch: Batch): GenerateEvent[] {
    const { cancelledIds } = this.#pendingStepOf(batch);
    this.#pendingStep = undefined;
    const events = [...cancelledIds].map((id) => this.#finish(this.#requests.of(id), "cancelled"));
    for (const { sequenceId, drafts } of batch.rows) {
      const sequence = drafts && this.#requests.find(sequenceId);
      if (sequence !== undefined) this.#kvCache.trim(sequence.id, sequence.knownTokens);
    }
    return this.#eventCounter.count(events);
  }

  /** Refuses whatever comes from now on; what is here goes on to its end. */
  drain(): void {
    this.#isDraining = true;
  }

  /** Forgets every cached prefix. Refuses, and returns false, while any request runs. */
  resetPrefixCache(): boolean {
    return this.#kvCache.reset();
  }

  /** The oldest changes of the prefix cache that nobody took yet, at most so many. */
  takeKvEvents(eventsMax: number): KvEvent[] {
    return this.#kvCache.takeEvents(eventsMax);
  }

  /** What has changed of the gateway's names for what can be hit, since that was taken last. */
  takePrefixChanges(): PrefixChanges | undefined {
    return this.#kvCache.takePrefixChanges();
  }

  load(): EngineLoad {
    return measureLoad(this.#scheduler, this.#kvCache);
  }

  get counters(): EngineCounters {
    return {
      ...this.#eventCounter.totals,
      promptTokens: this.#promptTokens,
      computedTokens: this.#computedTokens,
      prefix: this.#kvCache.statistics,
      preemptions: this.#scheduler.preemptions,
      drafts: this.#speculation?.statistics ?? NO_DRAFTS,
      prefills: this.#prefills.statistics,
    };
  }

  /** Throws unless blocks are conserved, and every request is in exactly one state. */
  checkInvariants(): void {
    const pending = this.#pendingStep;
    this.#scheduler.checkInvariants((id) => pending?.draftTokensOf(id) ?? 0);
    this.#requests.checkInvariants(this.#scheduler);
    const { sequenceCount: guessedSequences = 0 } = this.#speculation ?? {};
    assert(guessedSequences <= this.#requests.count, "Only of live requests guesses are kept");
    assert(this.#requests.count <= this.#limits.requestsMax, "The queue is bounded");
    pending?.checkInvariants({
      runningIds: new Set(this.#scheduler.running.map((sequence) => sequence.id)),
      batchTokensMax: this.#options.batchTokensMax,
    });
  }

  #expectHit(sequence: Sequence): void {
    if (!sequence.readsPrefixCache) return;
    sequence.expectHit(this.#kvCache.hitTokens(sequence.chain, sequence.knownTokens));
  }

  #pendingStepOf(batch: Batch): PendingStep {
    assert(this.#pendingStep?.batch === batch, "Only the pending step is committed or rolled back");
    return this.#pendingStep;
  }

  #advance(sequence: Sequence, row: BatchRow, result: ComputedRow): GenerateEvent[] {
    if (!sequence.hasStarted) this.#promptTokens += this.#prefills.ownTokens(sequence);
    const { events, ending } = sequence.commit(row, result);
    this.#computedTokens += row.tokens.length;
    this.#kvCache.confirm(sequence.id, sequence.computedTokens);
    if (row.drafts !== undefined) this.#kvCache.trim(sequence.id, sequence.knownTokens);
    this.#speculation?.record(row, result.chosen?.length ?? 0);
    if (ending?.kind === "finished") events.push(this.#finish(sequence, ending.reason));
    if (ending?.kind === "failed") events.push(this.#end(sequence, ending));
    return events;
  }

  #end(sequence: Sequence, ending: Ending): GenerateEvent {
    if (ending.kind === "cancelled") return this.#finish(sequence, "cancelled");
    this.#remove(sequence, "failed");
    return { kind: "failed", id: sequence.id, message: ending.message };
  }

  #finish(sequence: Sequence, reason: FinishReason): GenerateEvent {
    const event = this.#prefills.finish(sequence, reason);
    this.#remove(sequence, reason === "cancelled" ? "cancelled" : "complete");
    return event;
  }

  #remove(sequence: Sequence, ending: "complete" | "cancelled" | "failed"): void {
    this.#scheduler.remove(sequence, ending);
    this.#forget(sequence);
  }

  #forget(sequence: Sequence): void {
    this.#requests.forget(sequence);
    this.#speculation?.forget(sequence.id);
  }
}
