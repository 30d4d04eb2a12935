/**
 * What a step yields besides KV, row after row in the order of the batch. The arrays are the
 * executor's memory: valid until its next run.
 */
export interface StepOutput {
  /** Rows of logits: one for `output: "last"`, one a token for `"all"`. */
  readonly rowCount: number;
  readonly vocabularyTokens: number;
  /** Logits, `[rowCount, vocabularyTokens]`, f32. */
  readonly values: Float32Array;
  readonly hiddenSize: number;
  /** Last hidden states, normed, of the tokens of rows with `output: "hidden"`: `[tokens, hiddenSize]`. */
  readonly hidden: Float32Array;
}
