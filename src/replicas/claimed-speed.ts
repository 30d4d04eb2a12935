/** What a {@link ClaimedSpeed} remembers. */
export interface ClaimedSpeedState {
  /** Mean of the logarithms of how many times longer paces are than the replica's own figures foretell. */
  logRatio: number;
  /** Since when it has been far off, one answer after another; absent while it is not. */
  offSinceMs?: number;
  isDoubted: boolean;
}

/** The pace of one answer beside what the replica's own figures foretold of it. */
export interface ClaimedDuration {
  /** Foretold when it was sent and when it ended: of what came between, either may be right. */
  readonly claimedMs: readonly [number, number];
  readonly actualMs: number;
}

/** A dozen answers move it most of the way: what a replica tells is wrong for as long as nobody looks. */
const HALF_LIFE_COMPLETIONS = 4;
/** One answer says no more than that: it may have met a stall. */
const CHANGE_MAX = 2;
/** No figure is believed to be further off. */
const RATIO_MAX = 64;
/**
 * By less than that an engine is off that is right, and calibration sees to it. That one is faster than it tells
 * has to be plainer: who believes it by mistake breaks promises, and prompts that share what is cached look so.
 */
const SLOWER_FROM = Math.log(1.25);
const FASTER_FROM = -Math.log(1.5);
/** Of these, where a replica is believed again. */
const BELIEVED_RATIO = 1 / 2;
/** So long an engine has to notice by itself: one that has just started, or has become slower, soon does. */
const DOUBTED_AFTER_MS = 3_000;

/**
 * Holds what a replica tells of its steps against how long they take for those who run there. One that is
 * right is believed exactly, also while its load or its speed changes: only what lies outside of all that it
 * told during an answer speaks against it. One that goes on being wrong is corrected by as much.
 */
export class ClaimedSpeed {
  readonly state: ClaimedSpeedState;

  constructor(state: ClaimedSpeedState = claimsBelieved()) {
    this.state = state;
  }

  /** Learns from one answer. What no clock can have measured says nothing. */
  learn({ claimedMs, actualMs }: ClaimedDuration, nowMs: number): void {
    const logs = claimedMs.map((each) => Math.log(actualMs / each));
    if (!logs.every(Number.isFinite)) return;
    const { state } = this;
    const [lowest, highest] = [Math.min(...logs), Math.max(...logs)];
    const nearest = Math.min(highest, Math.max(lowest, state.logRatio));
    const change = clamp(nearest - state.logRatio, Math.log(CHANGE_MAX));
    const moved = state.logRatio + (1 - 2 ** (-1 / HALF_LIFE_COMPLETIONS)) * change;
    state.logRatio = clamp(moved, Math.log(RATIO_MAX));
    const scale = state.isDoubted ? BELIEVED_RATIO : 1;
    const isOff = state.logRatio > scale * SLOWER_FROM || state.logRatio < scale * FASTER_FROM;
    if (isOff) state.offSinceMs ??= nowMs;
    else delete state.offSinceMs;
    const { offSinceMs = Infinity } = state;
    state.isDoubted = nowMs - offSinceMs >= DOUBTED_AFTER_MS;
  }

  /** Another process tells its own. */
  forget(): void {
    delete this.state.offSinceMs;
    Object.assign(this.state, claimsBelieved());
  }
}

/** A replica that is believed. */
export function claimsBelieved(): ClaimedSpeedState {
  return { logRatio: 0, isDoubted: false };
}

/** How many times longer steps are taken to be than the replica tells; 1 while it is believed. */
export function claimedSpeedRatio({ logRatio, isDoubted }: ClaimedSpeedState): number {
  return isDoubted ? Math.exp(logRatio) : 1;
}

function clamp(value: number, magnitudeMax: number): number {
  return Math.max(-magnitudeMax, Math.min(magnitudeMax, value));
}
