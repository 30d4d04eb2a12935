import type { SloTargets } from "../../src/slo/targets.ts";
import type { TenantShare } from "../../src/tenants/share.ts";
import {
  ARXIV_SUMMARIES,
  AZURE_CODE,
  AZURE_CONVERSATION,
  BOOK_TRANSLATION,
  MOONCAKE_CONVERSATION,
  SHAREGPT,
} from "./lengths.ts";
import type { TenantProfile } from "./tenant-profile.ts";

/** The part of a pool that is promised to tenants; the rest absorbs what forecasts miss. */
export const COMMITTED_RATIO = 0.9;

const WEIGHT_SUM = 8;

/**
 * Six tenants that differ in all that matters to a scheduler: sizes, burstiness, targets and how much
 * their prompts share. Weights are eighths of the pool.
 */
export const SIX_TENANTS: readonly TenantProfile[] = [
  {
    name: "chat",
    share: shareOf(2, WEIGHT_SUM),
    targets: promised(1000, 50),
    lengths: AZURE_CONVERSATION,
    intervals: { kind: "gamma", cv: 1.1 },
    prefixes: { groups: 40, promptRatio: 0.4 },
  },
  {
    name: "chat-tight",
    share: shareOf(2, WEIGHT_SUM),
    targets: promised(500, 30),
    lengths: SHAREGPT,
    intervals: { kind: "gamma", cv: 1.5 },
    prefixes: { groups: 400, promptRatio: 0.5 },
  },
  {
    name: "code",
    share: shareOf(1, WEIGHT_SUM),
    targets: promised(1000, 50),
    lengths: AZURE_CODE,
    intervals: { kind: "gamma", cv: 4 },
    prefixes: { groups: 100, promptRatio: 0.3 },
  },
  {
    name: "rag",
    share: shareOf(1, WEIGHT_SUM),
    targets: promised(2000, 50),
    lengths: ARXIV_SUMMARIES,
    intervals: { kind: "poisson" },
    prefixes: { groups: 20, promptRatio: 0.2 },
  },
  {
    name: "agent",
    share: shareOf(1, WEIGHT_SUM),
    targets: promised(3000, 100),
    lengths: MOONCAKE_CONVERSATION,
    intervals: { kind: "gamma", cv: 2 },
    prefixes: { groups: 60, promptRatio: 0.6 },
  },
  {
    name: "bulk",
    share: shareOf(1, WEIGHT_SUM),
    targets: promised(10_000, 100),
    lengths: BOOK_TRANSLATION,
    intervals: { kind: "poisson" },
    prefixes: { groups: 4, promptRatio: 0.1 },
  },
];

/** A tenant's share where its guarantee is its weight's part of what is committed. */
export function shareOf(weight: number, weightSum: number): TenantShare {
  return { weight, guaranteedRatio: (COMMITTED_RATIO * weight) / weightSum, band: 0 };
}

/** The promise that 99 % of requests have their first token by then, and each further one so soon. */
export function promised(ttftMs: number, tpotMs: number): SloTargets {
  return {
    ttft: { percentileRatio: 0.99, limitMs: ttftMs },
    tpot: { percentileRatio: 0.99, limitMs: tpotMs },
  };
}
