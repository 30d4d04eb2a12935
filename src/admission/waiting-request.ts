import type { RequestId, TenantId } from "../protocol/ids.ts";

/** Whose turn a request takes: what it costs is charged there, and corrected there later. */
export interface FairAccount {
  readonly tenantId: TenantId;
  /** Positive. */
  readonly weight: number;
  /** Priority, 0 the most urgent; what is above the last band counts as that. */
  readonly band: number;
  readonly isInProfile: boolean;
}

/** A request that waits in the pool. */
export interface WaitingRequest extends FairAccount {
  readonly requestId: RequestId;
  /** What it is predicted to cost, in GPU-ms. */
  readonly costMs: number;
  /** Since when it waits; an earlier instant where it waited before. */
  readonly sinceMs: number;
  /** When its first token is due, its whole answer if not streamed; `Infinity` without a target. */
  readonly deadlineAtMs: number;
  /** When it becomes infeasible, as far as is known: it is due then, whatever its turn. */
  readonly dropAtMs: number;
}

/** Priority bands; more than a few would only make the least urgent wait longer. */
export const BANDS = 8;

/** The band that a priority stands for. */
export function bandOf(priority: number): number {
  return Math.min(BANDS - 1, Math.max(0, Math.floor(priority)));
}
