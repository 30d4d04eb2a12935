/** What {@link SpareRoom} remembers. */
export interface SpareRoomState {
  /** Of the recent past, the part in which somebody was refused. */
  refusingRatio: number;
  /** When somebody was refused last, up to when that is reckoned; absent: nobody was. */
  refusedAtMs?: number;
  /** What was sent to replicas lately, in GPU-ms, less what is forgotten of it. */
  sentMs: number;
  /** Up to when that is reckoned. */
  sentAtMs: number;
}

/** So long after a refusal a pool counts as one that refuses. */
const REFUSING_MS = 1_000;
/** The past is forgotten by a factor of e in so long: bursts are shorter, overloads are longer. */
const MEMORY_MS = 15_000;

export function allSpareRoom(): SpareRoomState {
  return { refusingRatio: 0, sentMs: 0, sentAtMs: 0 };
}

/**
 * Tells a burst from an overload: what a pool has left over beside what it has been sent lately, less the
 * more of that time it refused in. Of one that refused for half a second behind a quiet minute nearly all is
 * free again; one that has refused for a minute has nothing.
 */
export class SpareRoom {
  readonly state: SpareRoomState;

  constructor(state: SpareRoomState = allSpareRoom()) {
    this.state = state;
  }

  /** Notes a request that is sent to a replica, which takes `costMs` of GPU time. */
  sent(costMs: number, nowMs: number): void {
    const { state } = this;
    state.sentMs = this.#sentMs(nowMs) + costMs;
    state.sentAtMs = Math.max(state.sentAtMs, nowMs);
  }

  /** Notes a refusal; returns what part of the pool was free before it, from 0 to 1. */
  refused(poolMsPerMs: number, nowMs: number): number {
    const { state } = this;
    const passedMs = Math.max(0, nowMs - (state.refusedAtMs ?? -Infinity));
    const refusingMs = Math.min(passedMs, REFUSING_MS);
    const whileRefusing = 1 - (1 - state.refusingRatio) * keptOf(refusingMs);
    state.refusingRatio = whileRefusing * keptOf(passedMs - refusingMs);
    state.refusedAtMs = Math.max(state.refusedAtMs ?? nowMs, nowMs);
    if (poolMsPerMs <= 0) return 0;
    const busyRatio = Math.min(1, this.#sentMs(nowMs) / (MEMORY_MS * poolMsPerMs));
    return (1 - state.refusingRatio) * (1 - busyRatio);
  }

  #sentMs(nowMs: number): number {
    const { sentMs, sentAtMs } = this.state;
    return sentMs * keptOf(Math.max(0, nowMs - sentAtMs));
  }
}

function keptOf(passedMs: number): number {
  return Math.exp(-passedMs / MEMORY_MS);
}
