/** Virtual time: what is to happen, in order of its instant, ties in the order of scheduling. */
export class EventQueue {
  readonly #events: { readonly atMs: number; readonly happen: () => void }[] = [];
  #nowMs = 0;

  get nowMs(): number {
    return this.#nowMs;
  }

  get nextAtMs(): number | undefined {
    return this.#events.at(-1)?.atMs;
  }

  /** Lets something happen after a while; whole milliseconds keep instants comparable. */
  after(delayMs: number, happen: () => void): void {
    const atMs = this.#nowMs + Math.max(0, Math.ceil(delayMs));
    // Latest first, so that the next event is at the end, where taking it out is cheap.
    let index = this.#events.length;
    while (index > 0 && (this.#events[index - 1]?.atMs ?? 0) <= atMs) index -= 1;
    this.#events.splice(index, 0, { atMs, happen });
  }

  /** Moves time on to the next event and lets it happen; false when there is none. */
  step(): boolean {
    const event = this.#events.pop();
    if (event === undefined) return false;
    this.#nowMs = event.atMs;
    event.happen();
    return true;
  }
}
