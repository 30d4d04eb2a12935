import type { ReplicaId } from "../protocol/ids.ts";

/**
 * A replica that could be asked, as one request sees it. What a prefix hit saves, what a slow
 * replica costs and what its residents need is inside the forecast, so nothing is added for it here.
 */
export interface Candidate {
  readonly replicaId: ReplicaId;
  /** Requests there that run or wait, ours and others'. */
  readonly sequences: number;
  /**
   * What it can do beside the others when all is well, in any unit that the pool shares; positive.
   * The pool's is nominal requests a millisecond, or what an operator says: its weights.
   */
  readonly capacity: number;
  /** Which share of its capacity it may be given, in (0, 1]: below 1 after it has returned. */
  readonly capacityRatio: number;
  /** The least, over all targets, of the share that would be left of it; negative when one breaks. */
  readonly headroomRatio: number;
  readonly isFeasible: boolean;
  /** It was left alone for its failures, and this request may find out whether it is well again. */
  readonly isProbe: boolean;
  /**
   * By how much the request's TPOT target is tighter than any that binds the replica already, in [0, 1]:
   * from then on it could hold fewer sequences.
   */
  readonly tighteningRatio: number;
  /** What would have to be computed of the prompt. */
  readonly uncachedTokens: number;
  /** When its turn is by its weight, the earliest first: `Turns`. 0 for all where nobody has given weights. */
  readonly turn: number;
  /** The forecast's upper bound. */
  readonly ttftMs: number;
  readonly reportAgeMs: number;
  /** How much the request's route prefers the replica: `rendezvousWeight()`. */
  readonly rendezvous: number;
}
