import { setImmediate } from "node:timers/promises";
import type { DraftModel } from "./draft-model.ts";
import type { Batch, BatchRow } from "./engine/batch.ts";
import type { Engine } from "./engine/engine.ts";
import type { TurnedAway } from "./engine/plan.ts";
import type { Executor } from "./engine/executor/executor.ts";
import { createSamplingKernel } from "./engine/executor/sampling-kernel.ts";
import type { GenerateRequest } from "./engine/generate-request.ts";
import { messageOf } from "./engine/message-of.ts";
import type { RowResult } from "./engine/row-result.ts";
import { sampleBatch } from "./engine/sample-batch.ts";
import { Sampler } from "./engine/sampler.ts";
import type { StepMeter } from "./engine/step-meter.ts";
import type { TokenConstraint } from "./engine/token-constraint.ts";
import type { StepWatch } from "./step-watch.ts";
import { type EngineEvent, isTerminal } from "./thread-messages.ts";

export interface StepLoopOptions {
  readonly engine: Engine;
  readonly executor: Executor;
  readonly meter: StepMeter;
  /** Asked before a step for what outputs may go on with. */
  readonly draftModel?: DraftModel | undefined;
  readonly watch: StepWatch;
  readonly nowMs: () => number;
  /** Called after every step, and whenever something happened to a request in between. */
  readonly publish: (events: readonly EngineEvent[], atMs: number) => void;
  /** Called once with the reason when the draft model is not asked any more. */
  readonly onDraftsGivenUp: (reason: string) => void;
}

/**
 * A step of one row that cannot be computed may be one poisoned request. So many of them, with
 * nothing computed in between, are the runtime.
 */
const BARREN_STEPS_MAX = 3;
/** Failures in a row of the draft model, after which it is given up. */
const DRAFT_FAILURES_MAX = 3;

/**
 * Runs the engine step by step: plan, execute, sample, commit.
 *
 * Between two steps it gives way to the thread's messages, so a cancel acts at the next boundary,
 * and with nothing to do it sleeps until a request comes. A step that fails is rolled back and tried
 * once more; one that fails again is computed row by row, and only the rows that fail alone end
 * their requests. Rows do not depend on their batch mates, so that changes nobody's tokens.
 */
export class StepLoop {
  readonly #options: StepLoopOptions;
  readonly #sampler: Sampler;
  readonly #notStarted = new Set<string>();
  #hasNews = false;
  #wake: (() => void) | undefined;
  #isRetrying = false;
  #barrenSteps = 0;
  #draftFailures = 0;
  #stepRetries = 0;

  constructor(options: StepLoopOptions) {
    this.#options = options;
    const { vocabularyTokens } = options.executor;
    this.#sampler = new Sampler(vocabularyTokens, createSamplingKernel(vocabularyTokens));
  }

  /** Failed steps that were tried again. */
  get stepRetries(): number {
    return this.#stepRetries;
  }

  /** The constraint is what the request's own was compiled to. */
  submit(request: GenerateRequest, constraint?: TokenConstraint): void {
    const { engine, nowMs } = this.#options;
    this.#notStarted.add(request.id);
    this.#publishAny(engine.submit(request, nowMs(), constraint));
    this.#hasNews = true;
    this.#wake?.();
  }

  /** Ends a request that never came to be submitted. */
  turnAway(ending: TurnedAway): void {
    this.#publish(this.#options.engine.turnAway(ending));
  }

  cancel(id: string): void {
    this.#publishAny(this.#options.engine.cancel(id));
  }

  /** What was fetched for a request is near, or will not come. */
  kvArrived(id: string): void {
    this.#options.engine.kvArrived(id);
    this.#hasNews = true;
    this.#wake?.();
  }

  /** Says what the load is now that something other than a step has changed it. */
  publishLoad(): void {
    this.#publish([]);
  }

  drain(): void {
    this.#options.engine.drain();
  }

  /** Runs for ever; rejects when the runtime can compute nothing any more. */
  async run(): Promise<never> {
    for (;;) {
      this.#hasNews = false;
      if (await this.#step()) await setImmediate();
      else await this.#news();
    }
  }

  async #news(): Promise<void> {
    if (this.#hasNews) return;
    await new Promise<void>((resolve) => (this.#wake = resolve));
    this.#wake = undefined;
  }

  /** Returns whether there was anything to do. */
  async #step(): Promise<boolean> {
    const { engine, watch, nowMs } = this.#options;
    watch.enter();
    try {
      const draftedFromMs = nowMs();
      await this.#draft();
      const startedAtMs = nowMs();
      const { batch, events } = engine.plan(startedAtMs, startedAtMs - draftedFromMs);
      this.#publishAny([...events, ...this.#started(batch?.rows ?? [])]);
      if (batch === undefined) return false;
      await this.#execute(batch, startedAtMs);
      return true;
    } finally {
      watch.leave();
    }
  }

  /** A draft model that fails costs its drafts; one that does so again and again is not asked any more. */
  async #draft(): Promise<void> {
    const { engine, draftModel, onDraftsGivenUp } = this.#options;
    if (draftModel === undefined || this.#draftFailures >= DRAFT_FAILURES_MAX) return;
    const wishes = engine.draftWishes(draftModel.meter.model);
    if (wishes.length === 0) return;
    try {
      for (const [id, tokenIds] of await draftModel.draft(wishes)) engine.offerDrafts(id, tokenIds);
      this.#draftFailures = 0;
    } catch (error) {
      this.#draftFailures += 1;
      if (this.#draftFailures === DRAFT_FAILURES_MAX) onDraftsGivenUp(messageOf(error));
    }
  }

  async #execute(batch: Batch, startedAtMs: number): Promise<void> {
    const { meter, nowMs } = this.#options;
    let results: RowResult[];
    try {
      results = await this.#compute(batch);
    } catch {
      await this.#recover(batch);
      return;
    }
    const endedAtMs = nowMs();
    meter.record(batch, endedAtMs - startedAtMs, endedAtMs);
    this.#isRetrying = false;
    this.#barrenSteps = 0;
    this.#publish(this.#options.engine.commit(batch, results));
  }

  async #recover(batch: Batch): Promise<void> {
    if (!this.#isRetrying) {
      this.#isRetrying = true;
      this.#stepRetries += 1;
      this.#publishAny(this.#options.engine.rollback(batch));
      return;
    }
    this.#isRetrying = false;
    this.#publish(this.#options.engine.commit(batch, await this.#computeAlone(batch)));
  }

  async #computeAlone(batch: Batch): Promise<RowResult[]> {
    const results: RowResult[] = [];
    let computedRows = 0;
    let failure: unknown;
    for (const row of batch.rows) {
      try {
        results.push(...(await this.#compute({ rows: [row], totalTokens: row.tokens.length })));
        computedRows += 1;
      } catch (error) {
        failure = error;
        results.push({ kind: "failed", message: String(error) });
      }
    }
    this.#barrenSteps = computedRows > 0 ? 0 : this.#barrenSteps + 1;
    if (this.#barrenSteps > 0 && (batch.rows.length > 1 || this.#barrenSteps >= BARREN_STEPS_MAX)) {
      throw new Error(`The runtime computes nothing any more: ${String(failure)}`);
    }
    return results;
  }

  async #compute(batch: Batch): Promise<RowResult[]> {
    return sampleBatch(this.#sampler, batch, await this.#options.executor.run(batch));
  }

  #started(rows: readonly BatchRow[]): EngineEvent[] {
    return rows
      .filter((row) => this.#notStarted.delete(row.sequenceId))
      .map((row) => ({ kind: "started", id: row.sequenceId, cachedTokens: row.startPosition }));
  }

  #publishAny(events: readonly EngineEvent[]): void {
    if (events.length > 0) this.#publish(events);
  }

  #publish(events: readonly EngineEvent[]): void {
    for (const event of events) {
      this.#notStarted.delete(event.id);
      if (isTerminal(event)) this.#options.draftModel?.forget(event.id);
    }
    this.#options.publish(events, this.#options.nowMs());
  }
}
