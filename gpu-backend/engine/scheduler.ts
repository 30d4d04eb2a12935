import { assert } from "../../src/base/assert.ts";
import type { Batch, BatchRow } from "./batch.ts";
import type { KvCache } from "./kv-cache/kv-cache.ts";
import { HopelessCheck } from "./hopeless-check.ts";
import { PastFuture } from "./past-future.ts";
import type { SchedulerOptions } from "./scheduler-options.ts";
import type { Sequence } from "./sequence.ts";
import { StepBudget } from "./step-budget.ts";

/** Negative if `a` comes before `b`: gets its share first, is admitted first, is preempted last. */
export type CompareUrgency = (a: Sequence, b: Sequence, nowMs: number) => number;

/** First come, first served. */
export function compareArrival(a: Sequence, b: Sequence): number {
  return a.arrivalNumber - b.arrivalNumber;
}

/** To compute less twice is cheaper than to wait a step for it. */
const AWAITED_TOKENS_MIN = 32;

/**
 * Hands the budget of each step to sequences: those that run, in order of urgency, then those that
 * wait. Whoever decodes gets its token in every step.
 *
 * The victim of a preemption is always the least urgent sequence that runs and whose blocks can be of
 * use. The running ones get their tokens in that same order, so a victim has none yet, and nothing
 * is ever taken back from a step.
 */
export class Scheduler {
  readonly #kvCache: KvCache;
  readonly #options: SchedulerOptions;
  readonly #pastFuture: PastFuture;
  readonly #hopelessCheck: HopelessCheck;
  #waiting: Sequence[] = [];
  #running: Sequence[] = [];
  #preemptions = 0;

  constructor(kvCache: KvCache, options: SchedulerOptions) {
    assert(options.sequencesMax > 0, "At least one sequence can run");
    assert(
      options.batchTokensMax >= options.sequencesMax,
      "A step has a token for every sequence that can run",
    );
    assert(
      options.chunkedPrefill || !options.keepsTbt,
      "A whole prompt cannot be made to fit a TBT",
    );
    this.#kvCache = kvCache;
    this.#pastFuture = new PastFuture(kvCache);
    this.#options = options;
    const { forecast, batchTokensMax } = options;
    this.#hopelessCheck = new HopelessCheck({ forecast, batchTokensMax });
  }

  get waiting(): readonly Sequence[] {
    return this.#waiting;
  }

  get running(): readonly Sequence[] {
    return this.#running;
  }

  get preemptions(): number {
    return this.#preemptions;
  }

  /** Lets a sequence wait. The caller bounds how many do. */
  enqueue(sequence: Sequence): void {
    this.#waiting.push(sequence);
  }

  /**
   * Removes and returns the sequences that have not started and whose first token is due already or, by
   * the forecast, would be late even if they had the engine to themselves from now on.
   */
  takeLate(nowMs: number): Sequence[] {
    const late = this.#waiting.filter((sequence) => {
      const { firstTokenDeadlineAtMs } = sequence.request;
      if (sequence.hasStarted || firstTokenDeadlineAtMs === undefined) return false;
      if (nowMs >= firstTokenDeadlineAtMs) return true;
      // What it will find computed nobody knows.
      if (sequence.awaitsKv) return false;
      return this.#hopelessCheck.refuses(sequence, {
        leftMs: firstTokenDeadlineAtMs - nowMs,
        isIdle: this.#running.length === 0,
        reachableTokens: () => {
          const hitTokens = this.#hitTokens(sequence);
          return hitTokens + this.#upcomingTokens(sequence, hitTokens, this.#running);
        },
      });
    });
    this.#waiting = this.#waiting.filter((sequence) => !late.includes(sequence));
    return late;
  }

  /** Removes a sequence that ended. What a failed one computed must not be hit by others. */
  remove(sequence: Sequence, ending: "complete" | "cancelled" | "failed"): void {
    if (ending === "complete") this.#pastFuture.record(sequence);
    if (this.#running.includes(sequence)) {
      if (ending === "failed") this.#kvCache.discard(sequence.id);
      else this.#kvCache.release(sequence.id);
    }
    this.#running = this.#running.filter((other) => other !== sequence);
    this.#waiting = this.#waiting.filter((other) => other !== sequence);
  }

  /**
   * Decides what the next step computes; `undefined` when nobody runs or could. Takes blocks and may
   * preempt, but counts nothing as computed: without a commit the same tokens are planned again.
   */
  plan(nowMs: number, spentMs = 0): Batch | undefined {
    const { batchTokensMax, compareUrgency, keepsTbt, forecast } = this.#options;
    this.#running.sort((a, b) => compareUrgency(a, b, nowMs));
    const budget = new StepBudget({
      tokensMax: batchTokensMax,
      running: this.#running,
      forecast: keepsTbt ? forecast : undefined,
      spentMs,
    });
    const rows: BatchRow[] = [];
    const preemptionsBefore = this.#preemptions;
    for (const sequence of this.#running) {
      // Somebody before it may have taken its blocks.
      if (!this.#running.includes(sequence)) continue;
      if (this.#makeRoom(sequence, budget, nowMs)) this.#share(rows, budget, sequence);
    }
    // Whoever was preempted would only be displaced again by an admission into the room it left.
    if (this.#preemptions === preemptionsBefore) this.#admitWaiting(rows, budget, nowMs);
    if (rows.length === 0) {
      const isStuck = this.#running.length > 0 || this.#waiting.some(({ awaitsKv }) => !awaitsKv);
      assert(!isStuck, "A step moves somebody forward");
      return undefined;
    }
    const room = { kvCache: this.#kvCache, budget };
    const all = this.#options.speculation?.extendRows(rows, this.#running, room) ?? rows;
    return { rows: all, totalTokens: all.reduce((sum, { tokens }) => sum + tokens.length, 0) };
  }

  /**
   * Throws unless every sequence is in one place, and exactly the running ones hold blocks: none beyond
   * their known tokens but for the drafts of a pending step, if so many are given.
   */
  checkInvariants(draftTokensOf: (id: string) => number = () => 0): void {
    this.#kvCache.checkInvariants();
    const all = new Set([...this.#waiting, ...this.#running]);
    assert(
      all.size === this.#waiting.length + this.#running.length,
      "A sequence runs or waits, and does so once",
    );
    assert(this.#running.length <= this.#options.sequencesMax, "No more run than may");
    const holders = new Set(this.#kvCache.holders());
    assert(holders.size === this.#running.length, "Only those who run hold blocks");
    for (const sequence of this.#running) {
      assert(holders.has(sequence.id), `Running sequence ${sequence.id} holds blocks`);
      assert(sequence.uncomputedTokens > 0, `Running sequence ${sequence.id} has work to do`);
      const tokensMax = sequence.knownTokens + draftTokensOf(sequence.id);
      const blocksMax = Math.ceil(tokensMax / this.#kvCache.blockTokens);
      const { length: blocks } = this.#kvCache.heldBlocks(sequence.id);
      assert(blocks <= blocksMax, `Sequence ${sequence.id} holds nothing for drafts that are gone`);
    }
    for (const sequence of this.#waiting) {
      assert(sequence.computedTokens === 0, `Waiting sequence ${sequence.id} has no KV`);
    }
  }

  /** Finds blocks for all known tokens. Returns false if the sequence itself had to give way. */
  #makeRoom(sequence: Sequence, budget: StepBudget, nowMs: number): boolean {
    while (!this.#kvCache.extend(sequence.id, sequence.knownTokens)) {
      const victim = this.#running.findLast((other) =>
        this.#kvCache.canRelieve(other.id, sequence.id),
      );
      assert(victim !== undefined && this.#running.length > 1, "A sequence alone fits its share");
      this.#preempt(victim, nowMs);
      budget.release(victim);
      if (victim === sequence) return false;
    }
    return true;
  }

  #preempt(victim: Sequence, nowMs: number): void {
    this.#running = this.#running.filter((other) => other !== victim);
    this.#kvCache.release(victim.id);
    victim.preempt(nowMs);
    victim.expectHit(this.#hitTokens(victim));
    this.#waiting.unshift(victim);
    this.#preemptions += 1;
  }

  /**
   * Admits in order of urgency until one does not fit: nobody jumps ahead of it. But who would
   * exceed its tenant's share waits for that tenant alone, and the others need not wait with it; nor
   * do they with one that waits for KV, be it from elsewhere or from somebody who runs.
   */
  #admitWaiting(rows: BatchRow[], budget: StepBudget, nowMs: number): void {
    const { sequencesMax, compareUrgency } = this.#options;
    this.#waiting.sort((a, b) => compareUrgency(a, b, nowMs));
    const fullTenants = new Set<string>();
    for (const sequence of this.#waiting) {
      const { tenant } = sequence.request;
      if (this.#running.length >= sequencesMax || budget.tokensFor(sequence) === 0) break;
      if (sequence.awaitsKv || fullTenants.has(tenant)) continue;
      if (this.#awaitsPrefix(sequence, nowMs)) continue;
      if (!this.#fitsStep(sequence, budget)) break;
      if (this.#tryAdmit(sequence)) this.#share(rows, budget, sequence);
      else if (this.#kvCache.exceedsShare(tenant, sequence.knownTokens)) fullTenants.add(tenant);
      else break;
    }
  }

  /**
   * Whether somebody as urgent is about to compute what this one starts with, so that it is better held
   * back until it can hit that. Nobody is hit within a step: a row that fails would void the hit.
   */
  #awaitsPrefix(sequence: Sequence, nowMs: number): boolean {
    const { compareUrgency } = this.#options;
    const others = this.#running.filter((other) => compareUrgency(other, sequence, nowMs) <= 0);
    const hitTokens = this.#hitTokens(sequence);
    return this.#upcomingTokens(sequence, hitTokens, others) >= AWAITED_TOKENS_MIN;
  }

  /** Whether a step with this budget computes as much of a waiting prompt as it has to. */
  #fitsStep(sequence: Sequence, budget: StepBudget): boolean {
    if (this.#options.chunkedPrefill) return true;
    // What would be loaded may turn out not to be there.
    const { chain, knownTokens, readsPrefixCache } = sequence;
    const hits = readsPrefixCache ? this.#kvCache.hitBlocks(chain, knownTokens).length : 0;
    const missingTokens = sequence.uncomputedTokens - hits * this.#kvCache.blockTokens;
    return budget.tokensFor(sequence) >= sequence.stepTokensMax(missingTokens);
  }

  #hitTokens({ readsPrefixCache, chain, knownTokens }: Sequence): number {
    return readsPrefixCache ? this.#kvCache.hitTokens(chain, knownTokens) : 0;
  }

  /** How many tokens behind its hits are about to be computed by one of these others. */
  #upcomingTokens(sequence: Sequence, hitTokens: number, others: readonly Sequence[]): number {
    const { chain, knownTokens, readsPrefixCache } = sequence;
    if (!readsPrefixCache) return 0;
    const upcoming = others.map((other) =>
      this.#kvCache.upcomingTokens(other.id, { chain, knownTokens, hitTokens }),
    );
    return Math.max(0, ...upcoming);
  }

  #tryAdmit(sequence: Sequence): boolean {
    const { kvAdmission } = this.#options;
    if (kvAdmission === "past-future" && !this.#pastFuture.fits(sequence, this.#running)) {
      return false;
    }
    const hitTokens = this.#kvCache.admit({
      id: sequence.id,
      tenant: sequence.request.tenant,
      chain: sequence.chain,
      knownTokens: sequence.knownTokens,
      readsCache: sequence.readsPrefixCache,
      // A free block for each that runs: room to grow before somebody must be preempted. With
      // nobody running there is no reserve, so the largest request can start.
      reservedBlocks: this.#running.length,
      isResumed: sequence.cachedTokens !== undefined,
    });
    if (hitTokens === undefined) return false;
    sequence.admit(hitTokens);
    this.#waiting = this.#waiting.filter((other) => other !== sequence);
    this.#running.push(sequence);
    return true;
  }

  /** Adds what the budget has for a sequence, which may be nothing. */
  #share(rows: BatchRow[], budget: StepBudget, sequence: Sequence): void {
    const tokensMax = budget.tokensFor(sequence);
    // What those that run have to compute fitted into one step when they were admitted, and can but
    // shrink since.
    assert(
      this.#options.chunkedPrefill ||
        tokensMax >= sequence.stepTokensMax(sequence.uncomputedTokens),
      `Sequence ${sequence.id} was admitted whole`,
    );
    const tokens = sequence.nextTokens(tokensMax);
    if (tokens.length === 0) return;
    budget.take(sequence, tokens.length);
    const endPosition = sequence.computedTokens + tokens.length;
    rows.push(sequence.toRow(tokens, this.#kvCache.blockTable(sequence.id, endPosition)));
  }
}
