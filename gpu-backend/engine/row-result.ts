import type { TokenLogprob } from "./generate-request.ts";
import type { ChosenToken } from "./sampler.ts";

/** What the executor's output came to for a row that was computed. */
export interface ComputedRow {
  readonly kind: "computed";
  /**
   * Present exactly if the row has a `choice`: the next tokens, each behind the ones before it. One, and
   * one more for each draft that held.
   */
  readonly chosen?: readonly ChosenToken[];
  /** One for each of the row's `scoring.nextTokens`, in order. */
  readonly promptLogprobs?: readonly TokenLogprob[];
  /** `[tokens, hiddenSize]`, with `output: "hidden"`. Not the executor's memory. */
  readonly hidden?: Float32Array;
}

/** One row's result; a poisoned row's request ends with the commit, and no other one does. */
export type RowResult = ComputedRow | { readonly kind: "failed"; readonly message: string };
