import type { AttainmentCounts } from "./attainment-window.ts";
import { isViolated } from "./binomial.ts";
import type { SloTargets } from "./targets.ts";

/** From so many on a share speaks for itself; with fewer, chance has to be ruled out. */
const CONTRACT_REQUESTS_MIN = 500;
/** What may be missed where no target has a percentile of its own. */
const BUDGET_RATIO_DEFAULT = 0.01;

/**
 * Pairs of windows and the burn rate that both must exceed (Site Reliability Workbook, chapter 5):
 * the long one shows that it matters, the short one that it still goes on.
 */
const ALARMS = [
  { shortMs: 300_000, longMs: 3_600_000, rate: 14.4 },
  { shortMs: 1_800_000, longMs: 21_600_000, rate: 6 },
] as const;

/** Sums over sliding windows, such as an `AttainmentWindow` keeps. */
interface CountedWindows {
  sum(windowMs: number, nowMs: number): AttainmentCounts;
}

/**
 * Returns which share of requests may miss: the budget of the loosest percentile, since a request is
 * good only if it meets all targets, and a p95 target alone is missed by one in twenty.
 */
export function budgetRatioOf({ ttft, tpot, e2e }: SloTargets): number {
  const ratios = [ttft, tpot, e2e].flatMap((target) =>
    target === undefined ? [] : [1 - target.percentileRatio],
  );
  return ratios.length === 0 ? BUDGET_RATIO_DEFAULT : Math.max(...ratios);
}

/** Returns which share of what was judged was good; `undefined` where nothing was. */
export function attainedRatio(counts: AttainmentCounts): number | undefined {
  const { bad, judged } = spent(counts);
  return judged === 0 ? undefined : (judged - bad) / judged;
}

/** Returns how many times faster than allowed a budget is spent; 0 where nothing was judged. */
export function burnRate(counts: AttainmentCounts, budgetRatio: number): number {
  const { bad, judged } = spent(counts);
  return judged === 0 ? 0 : bad / judged / budgetRatio;
}

/**
 * Tells that a window broke the contract: by its share from 500 requests on; below, only if chance
 * does not explain it (exact binomial test at 5 %).
 */
export function isContractBroken(counts: AttainmentCounts, budgetRatio: number): boolean {
  const { bad, judged } = spent(counts);
  if (judged >= CONTRACT_REQUESTS_MIN) return bad / judged > budgetRatio;
  return isViolated(bad, judged, budgetRatio);
}

/** Tells that a tenant's budget burns fast enough for an alarm, in both windows of a pair. */
export function isBurning(
  windows: CountedWindows,
  nowMs: number,
  budgetRatio: number = BUDGET_RATIO_DEFAULT,
): boolean {
  return ALARMS.some(({ shortMs, longMs, rate }) => {
    // A wide budget cannot burn so many times over: then half-way to nothing good is an alarm.
    const badRatio = Math.min(rate * budgetRatio, (1 + budgetRatio) / 2);
    const short = spent(windows.sum(shortMs, nowMs));
    if (short.bad <= badRatio * short.judged) return false;
    // A tenant with few requests reaches any rate by one of them: the rate itself must be certain.
    const long = spent(windows.sum(longMs, nowMs));
    return isViolated(long.bad, long.judged, badRatio);
  });
}

/**
 * What spends the budget: requests that missed a target, and refusals within the tenant's guarantee,
 * for refusing must not be a way to look good. Refusals beyond the guarantee are the tenant's own,
 * and a degraded answer is what it asked for instead of a refusal.
 */
function spent({ good, missed, rejectedInProfile }: AttainmentCounts) {
  const bad = missed + rejectedInProfile;
  return { bad, judged: good + bad };
}
