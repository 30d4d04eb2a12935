import { assert } from "../base/assert.ts";

/** How likely a share of bad requests within the budget may look before we call it a violation. */
const SIGNIFICANCE = 0.05;
/** Further terms that add less than this to the sum cannot change a double. */
const NEGLIGIBLE_RATIO = 1e-17;

/**
 * Returns P(X ≥ k) of a binomial X with `n` trials of probability `p`: exact but for rounding (a
 * relative error below 1e-8 at a million trials). Terms are added from their own end of the
 * distribution, so small tails keep their precision; it takes O(√n) steps.
 */
export function binomialUpperTail(k: number, { n, p }: { n: number; p: number }): number {
  assert(Number.isInteger(n) && n >= 0 && Number.isInteger(k), "counts are whole numbers");
  assert(p >= 0 && p <= 1, "a probability is in 0–1");
  if (k <= 0) return 1;
  if (k > n || p === 0) return 0;
  if (p === 1) return 1;
  // On the far side of the mean the other tail is the short one.
  if (k <= n * p) return Math.max(0, 1 - sumTerms(k - 1, { n, p, step: -1 }));
  return Math.min(1, sumTerms(k, { n, p, step: 1 }));
}

/** Tells, at 5 %, that more than a share `budgetRatio` of such requests is bad. */
export function isViolated(bad: number, n: number, budgetRatio: number): boolean {
  return binomialUpperTail(bad, { n, p: budgetRatio }) < SIGNIFICANCE;
}

/** Halving 0–1 so often leaves nothing that a double could tell. */
const HALVINGS = 54;

/**
 * Returns the exact 95 % interval of a probability of which `k` of `n` trials came true (Clopper and
 * Pearson): with any value outside, so many or so few would be less likely than 2.5 %.
 */
export function binomialInterval(k: number, n: number): [low: number, high: number] {
  const tail = SIGNIFICANCE / 2;
  const low = k === 0 ? 0 : leastRatio((p) => binomialUpperTail(k, { n, p }) >= tail);
  const high = k === n ? 1 : leastRatio((p) => 1 - binomialUpperTail(k + 1, { n, p }) <= tail);
  return [low, high];
}

/** The least probability at which something holds that holds from there on. */
function leastRatio(holds: (p: number) => boolean): number {
  let [low, high] = [0, 1];
  for (let i = 0; i < HALVINGS; i += 1) {
    const middle = (low + high) / 2;
    if (holds(middle)) high = middle;
    else low = middle;
  }
  return high;
}

/** Adds P(X = i) from `i = from` away from the mean, each term from the one before it. */
function sumTerms(from: number, { n, p, step }: { n: number; p: number; step: 1 | -1 }): number {
  const odds = p / (1 - p);
  let term = Math.exp(logProbability(from, n, p));
  let sum = 0;
  for (let i = from; i >= 0 && i <= n; i += step) {
    sum += term;
    if (term <= sum * NEGLIGIBLE_RATIO) break;
    term *= step === 1 ? ((n - i) / (i + 1)) * odds : i / ((n - i + 1) * odds);
  }
  return sum;
}

function logProbability(k: number, n: number, p: number): number {
  const ways = logFactorial(n) - logFactorial(k) - logFactorial(n - k);
  return ways + k * Math.log(p) + (n - k) * Math.log1p(-p);
}

/** ln(n!): summed while that is short, then by Stirling's series, whose error is below 1e-12 here. */
function logFactorial(n: number): number {
  if (n < 32) {
    let sum = 0;
    for (let i = 2; i <= n; i += 1) sum += Math.log(i);
    return sum;
  }
  const inverse = 1 / n;
  const correction = inverse / 12 - inverse ** 3 / 360 + inverse ** 5 / 1260;
  return n * Math.log(n) - n + 0.5 * Math.log(2 * Math.PI * n) + correction;
}
