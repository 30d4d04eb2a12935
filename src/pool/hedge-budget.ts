import { assert } from "../base/assert.ts";

/** What a {@link HedgeBudget} remembers. */
export interface HedgeBudgetState {
  /** Dispatches that no hedge has been paid with yet. */
  savedDispatches: number;
}

/** So many dispatches pay for one hedge, which makes them two in a hundred. */
export const DISPATCHES_PER_HEDGE = 50;
/** What is saved beyond is lost: when all replicas are slow at once, copies make it worse. */
const HEDGES_SAVED_MAX = 8;

/**
 * Bounds how much work a pool does twice: hedges are at most one, which a pool is born with, and two in
 * a hundred of its dispatches.
 */
export class HedgeBudget {
  readonly state: HedgeBudgetState;

  constructor(state: HedgeBudgetState = { savedDispatches: DISPATCHES_PER_HEDGE }) {
    this.state = state;
  }

  /** A request was sent to a replica, not as a hedge. */
  dispatched(): void {
    const savedMax = HEDGES_SAVED_MAX * DISPATCHES_PER_HEDGE;
    this.state.savedDispatches = Math.min(savedMax, this.state.savedDispatches + 1);
  }

  /** Whether one more hedge can be paid. */
  get hasOne(): boolean {
    return this.state.savedDispatches >= DISPATCHES_PER_HEDGE;
  }

  /** Pays for one, while there is one. */
  spend(): void {
    assert(this.hasOne, "a hedge is paid before it is sent");
    this.state.savedDispatches -= DISPATCHES_PER_HEDGE;
  }

  checkInvariants(): void {
    const { savedDispatches } = this.state;
    assert(savedDispatches >= 0, "no hedge is owed");
    assert(
      savedDispatches <= HEDGES_SAVED_MAX * DISPATCHES_PER_HEDGE,
      "the hedges saved are within their bound",
    );
  }
}
