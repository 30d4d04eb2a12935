import { assert } from "../base/assert.ts";

/** What was charged within one slot of time. */
interface WindowSlot {
  /** Counted from the epoch, in units of {@link SLOT_MS}. */
  readonly slot: number;
  amount: number;
}

/** What a {@link RateWindow} remembers: at most a minute's slots, oldest first, none of them empty. */
export interface RateWindowState {
  slots: WindowSlot[];
}

/** How a limit per minute stands. */
export interface RateStanding {
  readonly limit: number;
  readonly remaining: number;
  /** Until some of what is used comes back, and until all of it has; 0 when nothing is used. */
  readonly nextMs: number;
  readonly resetMs: number;
}

const WINDOW_MS = 60_000;
/** Whatever is charged within one slot leaves together: so much longer than a minute it may count. */
const SLOT_MS = 500;
/** Those that lie within the minute wholly or in part, and the one that is being filled. */
const SLOTS_MAX = WINDOW_MS / SLOT_MS + 1;

/**
 * What was charged within the last minute. Within any 60 s no more is charged than the limit; a
 * bucket of that size would let twice as much through.
 *
 * A charge belongs to its instant, so a refund takes back what still counts of this very charge and
 * never what others have used since, and a charge that nobody corrects leaves after a minute. It
 * keeps what is used rather than what is left, so the limit may change from call to call.
 */
export class RateWindow {
  readonly state: RateWindowState;

  constructor(state: RateWindowState = { slots: [] }) {
    this.state = state;
  }

  /** How long until `amount` fits below the limit if nothing else is charged; `Infinity` if never. */
  fitsAfterMs(amount: number, limit: number, nowMs: number): number {
    if (amount > limit) return Infinity;
    this.#forget(nowMs);
    let excess = this.#used() + amount - limit;
    if (excess <= 0) return 0;
    for (const { slot, amount: leaving } of this.state.slots) {
      excess -= leaving;
      if (excess <= 0) return leavesAtMs(slot) - nowMs;
    }
    return 0;
  }

  /** Charges an amount whether or not it fits. Returns the slot, by which it can be refunded. */
  charge(amount: number, nowMs: number): number {
    assert(Number.isSafeInteger(amount) && amount >= 0, "a charge is a whole number from 0");
    this.#forget(nowMs);
    const { slots } = this.state;
    const last = slots.at(-1);
    // A clock that runs backwards must not put the slots out of order.
    const slot = Math.max(Math.floor(nowMs / SLOT_MS), last?.slot ?? 0);
    if (amount === 0) return slot;
    if (last?.slot === slot) last.amount += amount;
    else slots.push({ slot, amount });
    return slot;
  }

  /** Takes back of a charge what still counts: nothing once its minute is over. */
  refund(slot: number, amount: number, nowMs: number): void {
    this.#forget(nowMs);
    const charged = this.state.slots.find((candidate) => candidate.slot === slot);
    if (charged === undefined) return;
    assert(charged.amount >= amount, "no more is refunded than was charged");
    charged.amount -= amount;
    if (charged.amount === 0) this.state.slots.splice(this.state.slots.indexOf(charged), 1);
  }

  /** What counts now. */
  used(nowMs: number): number {
    this.#forget(nowMs);
    return this.#used();
  }

  /** Says how a limit stands: `remaining` and what is used make the limit. */
  standing(limit: number, nowMs: number): RateStanding {
    this.#forget(nowMs);
    const { slots } = this.state;
    const [oldest] = slots;
    const newest = slots.at(-1);
    return {
      limit,
      remaining: Math.max(0, limit - this.#used()),
      nextMs: oldest === undefined ? 0 : leavesAtMs(oldest.slot) - nowMs,
      resetMs: newest === undefined ? 0 : leavesAtMs(newest.slot) - nowMs,
    };
  }

  checkInvariants(): void {
    const { slots } = this.state;
    assert(slots.length <= SLOTS_MAX, "no more is remembered than a minute");
    let before = -1;
    for (const { slot, amount } of slots) {
      assert(slot > before, "slots are in order of time");
      assert(Number.isSafeInteger(amount) && amount > 0, "no slot is empty");
      before = slot;
    }
  }

  #used(): number {
    return this.state.slots.reduce((sum, { amount }) => sum + amount, 0);
  }

  #forget(nowMs: number): void {
    const { slots } = this.state;
    const firstKept = slots.findIndex(({ slot }) => leavesAtMs(slot) > nowMs);
    slots.splice(0, firstKept === -1 ? slots.length : firstKept);
  }
}

/** When the last charge that the slot can hold is a minute old. */
function leavesAtMs(slot: number): number {
  return (slot + 1) * SLOT_MS + WINDOW_MS;
}
