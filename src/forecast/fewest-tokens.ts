/** Doublings of the time searched: no output is longer than 2^20 tokens. */
const DOUBLINGS_MAX = 20;
/** Searched to within a twentieth: the forecasts around it are no better. */
const PRECISION_RATIO = 0.05;
const PRECISION_TOKENS = 1 / 16;

/**
 * The fewest tokens' time after which something holds that from then on goes on to hold; `Infinity` if it
 * does not within the longest output there is.
 */
export function fewestTokens(holds: (tokens: number) => boolean): number {
  let high = 1;
  for (let doublings = 0; !holds(high); doublings++) {
    if (doublings === DOUBLINGS_MAX) return Infinity;
    high *= 2;
  }
  let low = high === 1 ? 0 : high / 2;
  while (high - low > Math.max(PRECISION_TOKENS, PRECISION_RATIO * high)) {
    const middle = (low + high) / 2;
    if (holds(middle)) high = middle;
    else low = middle;
  }
  return high;
}
