import type { PastForecast } from "../forecast/calibration.ts";
import type { Replica } from "../replicas/replica.ts";
import type { Candidate } from "../routing/candidate.ts";
import type { ForeseenPace } from "./foreseen-pace.ts";
import type { Split } from "./splits.ts";

/** A replica that a request could be sent to, and what is foreseen of it there. */
export interface Option extends Candidate {
  readonly replica: Replica;
  /** Of the prompt, what should be cached there, and as how much that counts. */
  readonly foundTokens: number;
  readonly cachedTokens: number;
  /** The same without what another replica would compute. */
  readonly ownCachedTokens: number;
  /** Of the bound on its TTFT, what is not its own prompt's. */
  readonly othersTtftMs: number;
  readonly foreseen: { readonly ttft: PastForecast; readonly tpot: ForeseenPace };
  /** Present where another replica is to compute the prompt. */
  readonly split: Split | undefined;
  headroomRatio: number;
  /** What of it does not depend on how long the request has waited. */
  readonly roomRatio: number;
  isFeasible: boolean;
}

/** Where a request goes, if anywhere, and where it would have been best off. */
export interface Placed {
  readonly chosen: Option | undefined;
  /** Absent when no replica is fit at all. */
  readonly best: Option | undefined;
}

/** The option that has most left; absent when there is none. */
export function roomiestOf(options: readonly Option[]): Option | undefined {
  let best: Option | undefined;
  for (const option of options) {
    if (best === undefined || option.headroomRatio > best.headroomRatio) best = option;
  }
  return best;
}
