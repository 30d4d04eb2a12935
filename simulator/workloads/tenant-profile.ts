import type { SloTargets } from "../../src/slo/targets.ts";
import type { TenantShare } from "../../src/tenants/share.ts";
import type { IntervalShape } from "./intervals.ts";
import type { LengthTable } from "./length-table.ts";

/** What a tenant was promised and how its requests look; not how many there are. */
export interface TenantProfile {
  readonly name: string;
  readonly share: TenantShare;
  readonly targets: SloTargets;
  readonly lengths: LengthTable;
  readonly intervals: IntervalShape;
  readonly prefixes: PrefixShape;
  /** Present: every arrival opens a conversation instead of being one request. */
  readonly sessions?: SessionShape;
  /** The limit that the tenant's clients set; answers end there. Absent: they set none. */
  readonly outputTokensMax?: number;
}

/** What prompts of a tenant have in common. */
interface PrefixShape {
  /** Different system prompts, at most `PREFIX_GROUPS_MAX`. */
  readonly groups: number;
  /** How much of a prompt is its group's; 0 shares nothing. */
  readonly promptRatio: number;
}

/** Tenants own disjoint ranges of group numbers this wide. */
export const PREFIX_GROUPS_MAX = 2 ** 16;

/**
 * A conversation: each turn sends everything said before and something new.
 *
 * The next turn comes `thinkMeanMs` on average (exponential) after the answer would have ended at
 * `answerTokenMs` per token. Arrivals stay independent of how fast the answer really was, so two
 * policies see the same workload.
 */
export interface SessionShape {
  /** Turns are geometric around it, at most `turnsMax`. */
  readonly turnsMean: number;
  readonly turnsMax: number;
  readonly turnTokensMean: number;
  readonly thinkMeanMs: number;
  readonly answerTokenMs: number;
  /** A session ends before its prompt would grow longer. */
  readonly promptTokensMax: number;
}
