/** A timer cannot be set for much more than three weeks; who is woken early asks again. */
const WAKE_MS_MAX = 60_000;

/** Wakes somebody at one instant, the last that was set. */
export class WakeTimer {
  readonly #wake: () => void;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(wake: () => void) {
    this.#wake = wake;
  }

  set(atMs: number): void {
    clearTimeout(this.#timer ?? null);
    const delayMs = Math.min(Math.max(0, Math.ceil(atMs - Date.now())), WAKE_MS_MAX);
    this.#timer = setTimeout(this.#wake, delayMs);
  }
}
