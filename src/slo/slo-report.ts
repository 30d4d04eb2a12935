import { binomialInterval } from "./binomial.ts";
import { budgetRatioOf } from "./error-budget.ts";
import type { SloCounts } from "./slo-counts.ts";
import { noSloCounts, offeredOf, refusedOf } from "./slo-counts.ts";
import type { SloSums, SloWindowName } from "./slo-record.ts";
import { SLO_WINDOWS } from "./slo-record.ts";
import type { SloTargets } from "./targets.ts";

/** How one class of a tenant did in one window; `null` where nothing was there to be judged. */
interface SloWindowReport {
  readonly offered: number;
  readonly good: number;
  readonly degraded: number;
  readonly missed: number;
  readonly excluded: number;
  readonly refused: number;
  /** Of what was judged: good, missed, and refused although it was within the guarantee. */
  readonly attainment: number | null;
  /** Where its true value is with 95 %, exactly (Clopper and Pearson). */
  readonly attainment_interval: readonly [low: number, high: number] | null;
  /** What is left of the share that may miss: 1 is all of it, below 0 it is overspent. */
  readonly error_budget_left: number | null;
  /** How many times faster than allowed it is spent. */
  readonly burn_rate: number;
  readonly goodput_per_second: number;
  /** Of what was within the guarantee, what was not refused. */
  readonly acceptance: number | null;
  /** By reason and by cause, those that there were. */
  readonly refusals: Readonly<Record<string, number>>;
  readonly misses: Readonly<Record<string, number>>;
}

/** One class of a tenant, as `GET /v1/slo` tells it. */
export interface SloClassReport {
  readonly class: string;
  /** `null` for a class that the tenant does not have any more. */
  readonly targets: SloTargetsReport | null;
  /** The share of requests that may miss. */
  readonly error_budget: number | null;
  readonly windows: Readonly<Record<SloWindowName, SloWindowReport>>;
}

interface TargetReport {
  readonly percentile: number;
  readonly limit_ms: number;
  readonly per_prompt_token_ms?: number;
}

interface SloTargetsReport {
  readonly ttft?: TargetReport;
  readonly tpot?: TargetReport;
  readonly e2e?: TargetReport;
  readonly tbt_max_ms?: number;
}

/** Works out what a tenant is to be told of one of its classes. */
export function toSloReport(
  { className, windows }: SloSums,
  targets: SloTargets | undefined,
): SloClassReport {
  const budgetRatio = targets && budgetRatioOf(targets);
  const windowOf = (name: SloWindowName): SloWindowReport => {
    const index = SLO_WINDOWS.findIndex((window) => window.name === name);
    const windowMs = SLO_WINDOWS[index]?.windowMs ?? 1;
    const counts = windows[index] ?? noSloCounts();
    return toWindow(counts, windowMs, budgetRatio ?? budgetRatioOf({}));
  };
  return {
    class: className,
    targets: targets === undefined ? null : toTargets(targets),
    error_budget: budgetRatio ?? null,
    windows: { "5m": windowOf("5m"), "1h": windowOf("1h"), "30d": windowOf("30d") },
  };
}

function toWindow(counts: SloCounts, windowMs: number, budgetRatio: number): SloWindowReport {
  const { good, degraded, missed, excluded, inProfile, refusedInProfile } = counts;
  const bad = missed + refusedInProfile;
  const judged = good + bad;
  const isJudged = judged > 0;
  const burnRate = isJudged ? bad / judged / budgetRatio : 0;
  const asked = inProfile + refusedInProfile;
  return {
    offered: offeredOf(counts),
    good,
    degraded,
    missed,
    excluded,
    refused: refusedOf(counts),
    attainment: isJudged ? good / judged : null,
    attainment_interval: isJudged ? binomialInterval(good, judged) : null,
    error_budget_left: isJudged ? 1 - burnRate : null,
    burn_rate: burnRate,
    goodput_per_second: good / (windowMs / 1000),
    acceptance: asked > 0 ? inProfile / asked : null,
    refusals: countedOnly(counts.refusedFor),
    misses: countedOnly(counts.missedFor),
  };
}

function countedOnly(counts: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0));
}

function toTargets({ ttft, tpot, e2e, tbtMaxMs }: SloTargets): SloTargetsReport {
  return {
    ...(ttft !== undefined && { ttft: toTarget(ttft) }),
    ...(tpot !== undefined && { tpot: toTarget(tpot) }),
    ...(e2e !== undefined && { e2e: toTarget(e2e) }),
    ...(tbtMaxMs !== undefined && { tbt_max_ms: tbtMaxMs }),
  };
}

function toTarget(target: NonNullable<SloTargets["ttft"]>): TargetReport {
  const { percentileRatio, limitMs, perPromptTokenMs } = target;
  return {
    percentile: percentileRatio,
    limit_ms: limitMs,
    ...(perPromptTokenMs !== undefined && { per_prompt_token_ms: perPromptTokenMs }),
  };
}
