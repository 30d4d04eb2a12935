import type { OverloadLadder, OverloadStep } from "../tenants/overload-step.ts";

/** Waits as long as the target allows, then is refused. */
export const DEFAULT_OVERLOAD_LADDER: OverloadLadder = [
  { kind: "queue", ratio: 1 },
  { kind: "reject" },
];

/** How far down its ladder a request is. */
export interface LadderPosition {
  /** Which share of its target it has spent, waiting and before. */
  readonly waitedRatio: number;
  /** Steps that are behind it. */
  readonly taken: number;
}

/**
 * What to do next with a request that is infeasible now, and how many steps are behind it then. A
 * queue step lasts until its share is spent, and is not there at all when it is spent already; every
 * other step is taken once.
 */
export function nextStep(
  ladder: OverloadLadder,
  { waitedRatio, taken }: LadderPosition,
): { readonly step: OverloadStep; readonly taken: number } {
  for (let index = taken; index < ladder.length; index++) {
    const step = ladder[index];
    if (step === undefined) break;
    if (step.kind !== "queue") return { step, taken: index + 1 };
    if (waitedRatio < step.ratio) return { step, taken: index };
  }
  return { step: { kind: "reject" }, taken: ladder.length };
}
