import {
  addWork,
  NO_WORK,
  type StepForecast,
  workOfChunk,
  workOfGuesses,
} from "../../../src/step-cost/step-model.ts";

/** One sequence that decodes, and what is guessed of its output. */
export interface Guessed {
  readonly computedTokens: number;
  /** How many tokens are guessed; 0: nothing is. */
  readonly guessTokens: number;
  /** The probability of each guess to hold, given that those before it did. */
  readonly acceptanceRatio: number;
  /** Whether guesses of this sequence were verified when that was last decided. */
  readonly isOn: boolean;
}

/** What verifying has to gain before it begins: predictions are no better than this. */
const GAIN_TO_BEGIN = 1.05;

/**
 * How many guesses of each sequence to verify in one step, so that all that decode get the most tokens in
 * a time: a guess is worth its probability to hold, and costs what it makes the step longer.
 *
 * Those that are worth most for their cost come first, and are taken while they bring more in their time
 * than the step does without them. In a large batch, where a step is hardly more than the sum of its
 * tokens, that is none.
 */
export function draftLengths(guessed: readonly Guessed[], forecast: StepForecast): number[] {
  const lengths = guessed.map(() => 0);
  const decodes = guessed
    .map(({ computedTokens }) => workOfChunk(computedTokens, 1))
    .reduce(addWork, NO_WORK);
  const decodesMs = forecast.predictMs(decodes);
  // What a guess is worth by itself for each millisecond that it takes.
  const costsMs = guessed.map(({ computedTokens, isOn }) => {
    const work = addWork(decodes, workOfGuesses(computedTokens + 1, 1));
    return (forecast.predictMs(work) - decodesMs) * (isOn ? 1 : GAIN_TO_BEGIN);
  });
  const gains = guessed.map(({ acceptanceRatio }) => acceptanceRatio);
  let stepMs = decodesMs;
  let tokens = guessed.length;
  for (;;) {
    let best = -1;
    for (const [index, { guessTokens }] of guessed.entries()) {
      if ((lengths[index] ?? 0) >= guessTokens) continue;
      const [gain = 0, costMs = 0] = [gains[index], costsMs[index]];
      if (best < 0 || gain * (costsMs[best] ?? 0) > (gains[best] ?? 0) * costMs) best = index;
    }
    const [gain = 0, costMs = 0] = [gains[best], costsMs[best]];
    if (best < 0 || gain * stepMs <= costMs * tokens) return lengths;
    lengths[best] = (lengths[best] ?? 0) + 1;
    tokens += gain;
    stepMs += costMs;
    gains[best] = gain * (guessed[best]?.acceptanceRatio ?? 0);
  }
}
