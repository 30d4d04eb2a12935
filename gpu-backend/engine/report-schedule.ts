import { REPORT_COALESCE_MS, REPORT_INTERVAL_MS } from "../../src/protocol/engine-api.ts";

/**
 * Decides when the next report is due: at once after a change, but no sooner than 100 ms after the
 * last one, and without a change 500 ms after it. A new connection starts a new schedule, whose
 * first report is due at once.
 */
export class ReportSchedule {
  #lastSentAtMs = Number.NEGATIVE_INFINITY;
  #changedAtMs: number | undefined;

  /** Notes that what the last report said is no longer true. */
  changed(nowMs: number): void {
    this.#changedAtMs ??= nowMs;
  }

  sent(nowMs: number): void {
    this.#lastSentAtMs = nowMs;
    this.#changedAtMs = undefined;
  }

  /** The instant of the next report; one that lies in the past is due now. */
  dueAtMs(): number {
    const heartbeatAtMs = this.#lastSentAtMs + REPORT_INTERVAL_MS;
    if (this.#changedAtMs === undefined) return heartbeatAtMs;
    const coalescedAtMs = Math.max(this.#changedAtMs, this.#lastSentAtMs + REPORT_COALESCE_MS);
    return Math.min(coalescedAtMs, heartbeatAtMs);
  }
}
