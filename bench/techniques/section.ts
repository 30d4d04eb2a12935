import type { Random } from "../../src/base/random.ts";
import type { StepForecast } from "../../src/step-cost/step-model.ts";
import type { Machine } from "./bench-engine.ts";

/** What one technique is measured with. */
export interface Conditions {
  readonly machine: Machine;
  /** What its steps take, as measured apart from all techniques. */
  readonly curve: StepForecast;
  readonly repeats: number;
  readonly random: Random;
}

/** One line of the table. */
export interface Row {
  readonly what: string;
  readonly ours: string;
  /** What the measured step curve says it should be; absent where it says nothing. */
  readonly predicted?: string;
}

/** One technique: what was published of it, what we measure, and why that differs. */
export interface Section {
  readonly title: string;
  readonly published: string;
  readonly how: string;
  readonly why: string;
  /** Whether rows are compared with what the step curve says. */
  readonly predicts: boolean;
  measure(conditions: Conditions): Promise<readonly Row[]>;
}
