import {
  addWork,
  NO_WORK,
  type StepForecast,
  workOfChunk,
  workOfGuesses,
} from "../../../src/step-cost/step-model.ts";
import type { Sampling } from "../generate-request.ts";

/** A sequence whose next tokens a draft model is asked for. */
export interface DraftWish {
  readonly id: string;
  /** Prompt and output so far; the sequence's own list, good until it goes on. */
  readonly tokens: readonly number[];
  readonly sampling: Sampling;
  /** Of the first token asked for, among those of the output. */
  readonly outputIndex: number;
  /** How many tokens are asked for; at least 1. */
  readonly draftTokens: number;
}

/** One sequence that decodes. */
export interface Candidate {
  readonly computedTokens: number;
  /** How many tokens it could use; 0: a draft model is not to be asked for it. */
  readonly draftTokensMax: number;
  readonly acceptanceRatio: number;
}

/** Predicts what steps take: of the model that is served, and of the one that drafts. */
export interface DraftForecasts {
  readonly target: StepForecast;
  readonly draft: StepForecast;
}

/** What drafting has to gain before it begins: it costs more than the steps that are forecast. */
const GAIN_TO_BEGIN = 1.1;

/**
 * How many tokens a draft model is best asked for, of all who may use some alike: as many as give those who
 * decode the most tokens in a time, when each takes a step of the draft model, and verifying it makes the
 * model's own step longer. 0 where drafting costs more than it saves, or hardly less while nobody drafts.
 */
export function draftDepth(
  candidates: readonly Candidate[],
  { target, draft }: DraftForecasts,
  isDrafting: boolean,
): number {
  let work = NO_WORK;
  for (const { computedTokens } of candidates) work = addWork(work, workOfChunk(computedTokens, 1));
  const plainRate = candidates.length / target.predictMs(work);
  let best = { depth: 0, rate: isDrafting ? plainRate : GAIN_TO_BEGIN * plainRate };
  let expectedTokens = candidates.length;
  let draftMs = 0;
  for (let depth = 1; ; depth++) {
    let drafted = NO_WORK;
    for (const { computedTokens, draftTokensMax, acceptanceRatio } of candidates) {
      if (draftTokensMax < depth) continue;
      drafted = addWork(drafted, workOfChunk(computedTokens + depth, 1));
      expectedTokens += acceptanceRatio ** depth;
      work = addWork(work, workOfGuesses(computedTokens + depth, 1));
    }
    if (drafted === NO_WORK) return best.depth;
    draftMs += draft.predictMs(drafted);
    const rate = expectedTokens / (draftMs + target.predictMs(work));
    if (rate > best.rate) best = { depth, rate };
  }
}
