/** What a {@link PrefillBacklog} remembers. */
export interface PrefillBacklogState {
  /** Prompt tokens still to be computed, at an instant. */
  tokens: number;
  atMs: number;
}

/**
 * What a replica that does not report must still have to prefill: all that was sent there, less what it
 * can have computed since. Answers that come whole never say when their prompt was done, so without this
 * every prompt would count until its answer ends.
 */
export class PrefillBacklog {
  readonly state: PrefillBacklogState;

  constructor(state: PrefillBacklogState = { tokens: 0, atMs: 0 }) {
    this.state = state;
  }

  /** What is left at an instant, at so many milliseconds a token. */
  tokensAt(nowMs: number, tokenMs: number): number {
    const { tokens, atMs } = this.state;
    return Math.max(0, tokens - Math.max(0, nowMs - atMs) / tokenMs);
  }

  /** So many more were sent. */
  add(tokens: number, nowMs: number, tokenMs: number): void {
    this.state.tokens = this.tokensAt(nowMs, tokenMs) + tokens;
    this.state.atMs = nowMs;
  }
}
