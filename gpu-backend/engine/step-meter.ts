import { assert } from "../../src/base/assert.ts";
import { DecayingAverage } from "../../src/base/average.ts";
import type { StepCoefficients } from "../../src/step-cost/step-model.ts";
import { attendedPairsOf, StepModel } from "../../src/step-cost/step-model.ts";
import type { Batch, BatchRow } from "./batch.ts";
import { workOf } from "./batch-work.ts";

/** Long against a step, short against a change of load. */
const HALF_LIFE_MS = 10_000;
/** Clocks may not resolve a step; without a floor it would be infinitely fast. */
const STEP_MS_MIN = 0.001;
/** The model forgets in hundreds of steps; a machine that slows down is told of long before. */
const SPEED_HALF_LIFE_STEPS = 35;
/** One stall among dozens of steps is no news of the speed: a step counts as at most so much slower. */
const SLOWDOWN_MAX = 8;
/** How long ago the prefill counts a third that interferes with those that decode now. */
const PREFILL_MEMORY_MS = 2_000;

/** What a warm-up run measured, believed until steps say otherwise. */
export interface StepSpeed {
  /** Mean duration of one step. */
  readonly stepMs: number;
  readonly prefillTokensPerSecond: number;
}

/** What steps have shown up to an instant, for the report to the pool. */
export interface StepMeasurements extends StepSpeed {
  /** What the model has learned. */
  readonly step: StepCoefficients;
  /** How many times longer recent steps took than the model said before it learned them. */
  readonly speedRatio: number;
  /** Which share of the time of about the last two seconds prefill took, as of `prefillMeasuredAtMs`. */
  readonly prefillTimeRatio: number;
  /** The end of the last step; since then no prefill was measured. `undefined` before the first. */
  readonly prefillMeasuredAtMs: number | undefined;
}

/**
 * Measures how fast steps are, recent ones counting most: means to report, a model to plan with, and how
 * far the machine has departed from that model of late.
 */
export class StepMeter {
  readonly model: StepModel;
  readonly #stepMs: DecayingAverage;
  readonly #prefillTokenMs: DecayingAverage;
  #logSpeedRatio = 0;
  #prefillTimeRatio = 0;
  #lastStepAtMs: number | undefined;

  /** The warm-up counts as one step and one prefilled token. */
  constructor(warmUp: StepSpeed) {
    assert(warmUp.stepMs > 0 && warmUp.prefillTokensPerSecond > 0, "A warm-up took time");
    const tokenMs = 1000 / warmUp.prefillTokensPerSecond;
    this.model = new StepModel({
      fixedMs: Math.max(0, warmUp.stepMs - tokenMs),
      tokenMs,
      attendedPairMs: 0,
      sequenceMs: 0,
      kvTokenMs: 0,
    });
    this.#stepMs = new DecayingAverage({
      halfLifeMs: HALF_LIFE_MS,
      prior: { value: warmUp.stepMs, weight: 1 },
    });
    this.#prefillTokenMs = new DecayingAverage({
      halfLifeMs: HALF_LIFE_MS,
      prior: { value: tokenMs, weight: 1 },
    });
  }

  /** Adds a committed step that has just ended. Prefill is charged its share of one that decodes as well. */
  record(batch: Batch, durationMs: number, nowMs: number): void {
    const stepMs = Math.max(durationMs, STEP_MS_MIN);
    const work = workOf(batch);
    const predictedMs = this.model.predictMs(work);
    const prefill = prefillOf(batch);
    this.#learnSpeed(stepMs / Math.max(predictedMs, STEP_MS_MIN));
    this.#addPrefill(stepMs, this.#marginalRatio(prefill, predictedMs), nowMs);
    this.model.record(work, stepMs);
    this.#stepMs.add(stepMs, nowMs);
    if (prefill.tokens > 0) {
      this.#prefillTokenMs.add(stepMs / batch.totalTokens, nowMs, prefill.tokens);
    }
  }

  get speed(): StepSpeed {
    return {
      stepMs: this.#stepMs.value ?? STEP_MS_MIN,
      prefillTokensPerSecond: 1000 / (this.#prefillTokenMs.value ?? STEP_MS_MIN),
    };
  }

  get measurements(): StepMeasurements {
    return {
      ...this.speed,
      step: this.model.coefficients,
      speedRatio: Math.exp(this.#logSpeedRatio),
      prefillTimeRatio: this.#prefillTimeRatio,
      prefillMeasuredAtMs: this.#lastStepAtMs,
    };
  }

  /** The mean is one of logarithms, so that twice as slow and twice as fast weigh the same. */
  #learnSpeed(slowdown: number): void {
    const logSlowdown = Math.log(Math.min(SLOWDOWN_MAX, Math.max(1 / SLOWDOWN_MAX, slowdown)));
    const kept = 2 ** (-1 / SPEED_HALF_LIFE_STEPS);
    this.#logSpeedRatio = kept * this.#logSpeedRatio + (1 - kept) * logSlowdown;
  }

  /**
   * By which share the prefill makes the step longer: what a step has to begin with is not its doing,
   * and those that decode would spend it anyway.
   */
  #marginalRatio(prefill: PrefillWork, predictedMs: number): number {
    const { tokenMs, attendedPairMs } = this.model.coefficients;
    const prefillMs = tokenMs * prefill.tokens + attendedPairMs * prefill.attendedPairs;
    return prefillMs === 0 ? 0 : Math.min(1, prefillMs / predictedMs);
  }

  #addPrefill(stepMs: number, ratio: number, nowMs: number): void {
    const idleMs = Math.max(0, nowMs - stepMs - (this.#lastStepAtMs ?? nowMs));
    const kept = Math.exp(-stepMs / PREFILL_MEMORY_MS);
    const before = fadePrefill(this.#prefillTimeRatio, idleMs);
    this.#prefillTimeRatio = kept * before + (1 - kept) * ratio;
    this.#lastStepAtMs = nowMs;
  }
}

/** What is left of a measured share of prefill time after a while without any step. */
export function fadePrefill(prefillTimeRatio: number, idleMs: number): number {
  return prefillTimeRatio * Math.exp(-idleMs / PREFILL_MEMORY_MS);
}

interface PrefillWork {
  readonly tokens: number;
  readonly attendedPairs: number;
}

function prefillOf(batch: Batch): PrefillWork {
  let tokens = 0;
  let attendedPairs = 0;
  for (const row of batch.rows) {
    if (!isPrefill(row)) continue;
    tokens += row.tokens.length;
    attendedPairs += attendedPairsOf(row.startPosition, row.tokens.length);
  }
  return { tokens, attendedPairs };
}

/** The last token of a resumed prefill looks like a decode; one token does not matter here. */
function isPrefill(row: BatchRow): boolean {
  if (row.drafts !== undefined) return false;
  return row.tokens.length > 1 || row.outputIndex === 0;
}
