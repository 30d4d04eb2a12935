/**
 * Calls back once at an instant that may be moved as often as tokens come. Moving it later is a
 * mere assignment: a timer that fires too early looks again.
 */
export class LazyTimer {
  readonly #onDue: () => void;
  #dueAtMs: number | undefined;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #firesAtMs = Number.POSITIVE_INFINITY;

  constructor(onDue: () => void) {
    this.#onDue = onDue;
  }

  set(dueAtMs: number): void {
    this.#dueAtMs = dueAtMs;
    if (dueAtMs < this.#firesAtMs) this.#arm(dueAtMs);
  }

  clear(): void {
    clearTimeout(this.#timer);
    this.#firesAtMs = Number.POSITIVE_INFINITY;
    this.#dueAtMs = undefined;
  }

  #arm(atMs: number): void {
    clearTimeout(this.#timer);
    this.#firesAtMs = atMs;
    this.#timer = setTimeout(() => this.#look(), atMs - Date.now());
  }

  #look(): void {
    this.#firesAtMs = Number.POSITIVE_INFINITY;
    const dueAtMs = this.#dueAtMs;
    if (dueAtMs === undefined) return;
    if (Date.now() < dueAtMs) {
      this.#arm(dueAtMs);
      return;
    }
    this.#dueAtMs = undefined;
    this.#onDue();
  }
}
