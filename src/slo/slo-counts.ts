import type { Attainment } from "./attainment.ts";
import type { MissCause } from "./miss-cause.ts";
import { MISS_CAUSES } from "./miss-cause.ts";

/** Why requests are refused: the first five are their tenant's own limits, the others the pool's reasons. */
export const REFUSAL_REASONS = [
  "concurrency",
  "requests",
  "tokens",
  "month",
  "spend",
  "infeasible",
  "unattainable",
  "out-of-profile",
  "queue-full",
  "deadline-passed",
  "no-replica",
] as const;
type RefusalReason = (typeof REFUSAL_REASONS)[number];

/** What became of one request of a tenant. */
export type SloEvent =
  | {
      readonly kind: "ended";
      readonly attainment: Attainment;
      /** Present where it missed a target. */
      readonly cause?: MissCause;
      readonly isInProfile: boolean;
    }
  /** `isOurs`: it was within what its tenant is guaranteed. */
  | { readonly kind: "refused"; readonly reason: RefusalReason; readonly isOurs: boolean };

/** What became of many. */
export interface SloCounts {
  /** Met every target, and were what was asked for. */
  good: number;
  /** Met every target, but were shorter or of another model. */
  degraded: number;
  missed: number;
  excluded: number;
  /** Of those that ended. */
  inProfile: number;
  /** Of those that were refused. */
  refusedInProfile: number;
  readonly missedFor: Record<MissCause, number>;
  readonly refusedFor: Record<RefusalReason, number>;
}

export function noSloCounts(): SloCounts {
  return {
    good: 0,
    degraded: 0,
    missed: 0,
    excluded: 0,
    inProfile: 0,
    refusedInProfile: 0,
    missedFor: { queue: 0, prefill: 0, decode: 0, stall: 0, replica: 0 },
    refusedFor: {
      concurrency: 0,
      requests: 0,
      tokens: 0,
      month: 0,
      spend: 0,
      infeasible: 0,
      unattainable: 0,
      "out-of-profile": 0,
      "queue-full": 0,
      "deadline-passed": 0,
      "no-replica": 0,
    },
  };
}

/** Counts one request. */
export function countEvent(counts: SloCounts, event: SloEvent): void {
  if (event.kind === "refused") {
    counts.refusedFor[event.reason] += 1;
    if (event.isOurs) counts.refusedInProfile += 1;
    return;
  }
  const { kind, isDegraded } = event.attainment;
  if (kind === "good" && isDegraded) counts.degraded += 1;
  else counts[kind] += 1;
  if (event.isInProfile) counts.inProfile += 1;
  if (kind === "missed") counts.missedFor[event.cause ?? "replica"] += 1;
}

/** Adds the counts of `others` to a sum. */
export function addSloCounts(sum: SloCounts, others: SloCounts): void {
  sum.good += others.good;
  sum.degraded += others.degraded;
  sum.missed += others.missed;
  sum.excluded += others.excluded;
  sum.inProfile += others.inProfile;
  sum.refusedInProfile += others.refusedInProfile;
  for (const cause of MISS_CAUSES) sum.missedFor[cause] += others.missedFor[cause];
  for (const reason of REFUSAL_REASONS) sum.refusedFor[reason] += others.refusedFor[reason];
}

/** How many requests there were, whatever became of them. */
export function offeredOf(counts: SloCounts): number {
  const { good, degraded, missed, excluded } = counts;
  return good + degraded + missed + excluded + refusedOf(counts);
}

export function refusedOf({ refusedFor }: SloCounts): number {
  return REFUSAL_REASONS.reduce((sum, reason) => sum + refusedFor[reason], 0);
}
