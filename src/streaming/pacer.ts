import { assert } from "../base/assert.ts";

/** How a stream is to be paced. */
export interface PacerOptions {
  /** The largest gap that was promised: no text is held longer, nor the next one put off further. */
  readonly gapMsMax: number;
}

/** How much of the mean a new gap makes up: an answer's pace is told by its last dozen chunks. */
const NEW_GAP_RATIO = 0.15;
/** So much slower than it comes a stream goes out, until what is held can cover a pause. */
const STRETCH_RATIO = 1.1;

/**
 * Decides when each text of a stream goes out, so that its reader sees an even pace although its replica
 * pauses. The stream goes out a little slower than it comes until one promised gap is held back; a pause
 * up to that long is then not seen.
 *
 * The first text is never held, none is held longer than the gap promised, and no gap becomes larger than
 * that one unless the replica's own was.
 */
export class Pacer {
  readonly #gapMsMax: number;
  #meanGapMs: number | undefined;
  #heardAtMs: number | undefined;
  #dueAtMs = -Infinity;

  constructor({ gapMsMax }: PacerOptions) {
    assert(gapMsMax > 0 && gapMsMax < Infinity, "a pace is kept where one was promised");
    this.#gapMsMax = gapMsMax;
  }

  /** Returns when a text goes out that has just come; never before the one before. */
  dueAtMs(nowMs: number): number {
    if (this.#heardAtMs !== undefined) this.#learn(Math.max(0, nowMs - this.#heardAtMs));
    this.#heardAtMs = nowMs;
    const gapMs = Math.min(this.#gapMsMax, STRETCH_RATIO * (this.#meanGapMs ?? 0));
    const evenAtMs = Math.min(this.#dueAtMs + gapMs, nowMs + this.#gapMsMax);
    this.#dueAtMs = Math.max(nowMs, evenAtMs);
    return this.#dueAtMs;
  }

  #learn(gapMs: number): void {
    const before = this.#meanGapMs ?? gapMs;
    this.#meanGapMs = before + NEW_GAP_RATIO * (gapMs - before);
  }
}
