/** No output is longer. */
const TOKENS_MAX = 2 ** 20;
/** Amounts and times are met to within a twentieth: the forecasts around them are no better. */
const PRECISION_RATIO = 0.05;
const PRECISION_TOKENS = 1 / 16;
/** A step of the search goes at most so many times as far, or comes back as much. */
const STRIDE_MAX = 8;
/** Every third step halves the bracket, so that 60 of them find any time. */
const STEPS_MAX = 60;

/** An amount that grows with time, in tokens that each sequence gets; what is asked of it; a guess. */
export interface GrowingAmount {
  readonly amountBy: (tokens: number) => number;
  readonly target: number;
  readonly guessTokens: number;
}

/**
 * How long until a growing amount comes to a target; `Infinity` if that is after the longest output there
 * is. Amounts that grow about evenly take two or three looks.
 */
export function tokensUntil({ amountBy, target, guessTokens }: GrowingAmount): number {
  let low = 0;
  let high = Infinity;
  let tokens = Math.min(TOKENS_MAX, Math.max(PRECISION_TOKENS, guessTokens));
  for (let step = 1; step <= STEPS_MAX; step++) {
    const amount = amountBy(tokens);
    // Only from below: beyond a jump an amount may be about right for a long time.
    if (amount <= target && amount >= (1 - PRECISION_RATIO) * target) return tokens;
    if (amount >= target) high = tokens;
    else low = tokens;
    if (low >= TOKENS_MAX) return Infinity;
    const isBracketed = high < Infinity;
    if (isBracketed && high - low <= Math.max(PRECISION_TOKENS, PRECISION_RATIO * high))
      return high;
    const stride = amount > 0 ? Math.min(STRIDE_MAX, target / amount) : STRIDE_MAX;
    const proportional = tokens * Math.max(1 / STRIDE_MAX, stride);
    const isWithin = proportional > low && proportional < high;
    const isHalving = isBracketed && (step % 3 === 0 || !isWithin);
    tokens = Math.min(TOKENS_MAX, isHalving ? (low + high) / 2 : proportional);
  }
  return high;
}
