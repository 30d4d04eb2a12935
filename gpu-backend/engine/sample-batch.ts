import type { Batch, BatchRow, Drafts, PromptScoring } from "./batch.ts";
import { hiddenRowsOf, logitRowsOf } from "./batch.ts";
import type { TokenLogprob } from "./generate-request.ts";
import { tokenLogprob } from "./log-probability.ts";
import { messageOf } from "./message-of.ts";
import type { RowResult } from "./row-result.ts";
import type { ChosenToken, Sampler } from "./sampler.ts";
import { verifyDrafts } from "./speculation/verify-drafts.ts";
import type { StepOutput } from "./step-output.ts";
import type { TokenChoice } from "./token-choice.ts";

/** The output of one row: its logits and its hidden states, row after row. */
interface RowOutput {
  readonly logits: Float32Array;
  readonly hidden: Float32Array;
}

/** A view a row and step less to be collected: few rows ask for hidden states. */
const NOTHING = new Float32Array(0);

/**
 * Makes a step's output into one result a row: chooses tokens, scores prompts, copies hidden states.
 *
 * A row whose numbers are not finite, or whose constraint breaks, fails alone.
 */
export function sampleBatch(sampler: Sampler, batch: Batch, output: StepOutput): RowResult[] {
  const { vocabularyTokens, hiddenSize } = output;
  let logitStart = 0;
  let hiddenStart = 0;
  return batch.rows.map((row) => {
    const logitEnd = logitStart + logitRowsOf(row) * vocabularyTokens;
    const hiddenEnd = hiddenStart + hiddenRowsOf(row) * hiddenSize;
    const logits = output.values.subarray(logitStart, logitEnd);
    const hidden =
      hiddenStart === hiddenEnd ? NOTHING : output.hidden.subarray(hiddenStart, hiddenEnd);
    logitStart = logitEnd;
    hiddenStart = hiddenEnd;
    return readRow(sampler, row, { logits, hidden });
  });
}

function readRow(sampler: Sampler, row: BatchRow, output: RowOutput): RowResult {
  const { choice, scoring } = row;
  const { logits, hidden } = output;
  try {
    checkFinite(hidden);
    return {
      kind: "computed",
      ...(choice !== undefined && { chosen: chooseTokens(sampler, logits, choice, row.drafts) }),
      ...(scoring !== undefined && {
        promptLogprobs: scorePrompt(logits, scoring, sampler.vocabularyTokens),
      }),
      ...(row.output === "hidden" && { hidden: hidden.slice() }),
    };
  } catch (error) {
    // A constraint is not ours: whatever it throws concerns the one sequence that it belongs to.
    return { kind: "failed", message: messageOf(error) };
  }
}

/** Chooses by the last row of logits, or by one row for the choice and one for each draft. */
function chooseTokens(
  sampler: Sampler,
  logits: Float32Array,
  choice: TokenChoice,
  drafts: Drafts | undefined,
): readonly ChosenToken[] {
  if (drafts !== undefined) return verifyDrafts(sampler, logits, choice, drafts);
  const { vocabularyTokens } = sampler;
  const isOneRow = logits.length === vocabularyTokens;
  const lastLogits = isOneRow ? logits : logits.subarray(logits.length - vocabularyTokens);
  return [sampler.choose(lastLogits, choice)];
}

function scorePrompt(
  logits: Float32Array,
  { top, nextTokens }: PromptScoring,
  vocabularyTokens: number,
): TokenLogprob[] {
  return Array.from(nextTokens, (token, index) => {
    const start = index * vocabularyTokens;
    return tokenLogprob(logits.subarray(start, start + vocabularyTokens), token, top);
  });
}

function checkFinite(hidden: Float32Array): void {
  const bad = hidden.findIndex((value) => !Number.isFinite(value));
  if (bad >= 0) throw new Error(`Expected finite hidden states, found ${hidden[bad]}`);
}
