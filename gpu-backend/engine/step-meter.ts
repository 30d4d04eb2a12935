import { assert } from "../../src/base/assert.ts";
import { DecayingAverage } from "../../src/base/average.ts";
import type { Batch, BatchRow } from "./batch.ts";
import { workOf } from "./batch-work.ts";
import { StepModel } from "../../src/step-cost/step-model.ts";

/** Long against a step, short against a change of load. */
const HALF_LIFE_MS = 10_000;
/** Clocks may not resolve a step; without a floor it would be infinitely fast. */
const STEP_MS_MIN = 0.001;

/** What a warm-up run measured, believed until steps say otherwise. */
export interface StepSpeed {
  /** Mean duration of one step. */
  readonly stepMs: number;
  readonly prefillTokensPerSecond: number;
}

/** Measures how fast steps are, recent ones counting most: means to report, a model to plan with. */
export class StepMeter {
  readonly model: StepModel;
  readonly #stepMs: DecayingAverage;
  readonly #prefillTokenMs: DecayingAverage;

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

  /** Adds a committed step. Prefill is charged its share of a step that decodes as well. */
  record(batch: Batch, durationMs: number, nowMs: number): void {
    const stepMs = Math.max(durationMs, STEP_MS_MIN);
    this.model.record(workOf(batch), stepMs);
    this.#stepMs.add(stepMs, nowMs);
    const prefillTokens = batch.rows
      .filter(isPrefill)
      .reduce((sum, row) => sum + row.tokens.length, 0);
    if (prefillTokens > 0) {
      this.#prefillTokenMs.add(stepMs / batch.totalTokens, nowMs, prefillTokens);
    }
  }

  get speed(): StepSpeed {
    return {
      stepMs: this.#stepMs.value ?? STEP_MS_MIN,
      prefillTokensPerSecond: 1000 / (this.#prefillTokenMs.value ?? STEP_MS_MIN),
    };
  }
}

/** The last token of a resumed prefill looks like a decode; one token does not matter here. */
function isPrefill(row: BatchRow): boolean {
  return row.tokens.length > 1 || row.outputIndex === 0;
}
