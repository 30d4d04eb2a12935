/** What to do about a part that has died. */
export type RestartVerdict =
  | { readonly kind: "restart"; readonly attempt: number; readonly delayMs: number }
  | { readonly kind: "give-up" };

export const RESTARTS_MAX = 3;
export const RESTART_WINDOW_MS = 60_000;
const FIRST_DELAY_MS = 500;

/**
 * Grants restarts until too many fall into one window. Each one within the window waits twice as
 * long as the one before it, so that a part which dies at once does not spin.
 */
export class RestartBudget {
  #restartsAtMs: readonly number[] = [];

  /** Decides about a death that happened at `nowMs`, and counts the restart it grants. */
  take(nowMs: number): RestartVerdict {
    const recent = this.#restartsAtMs.filter((atMs) => nowMs - atMs < RESTART_WINDOW_MS);
    if (recent.length >= RESTARTS_MAX) return { kind: "give-up" };
    this.#restartsAtMs = [...recent, nowMs];
    return {
      kind: "restart",
      attempt: recent.length + 1,
      delayMs: FIRST_DELAY_MS * 2 ** recent.length,
    };
  }
}
