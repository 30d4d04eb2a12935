/** Lines that arrive when they please, taken one by one by a test that waits for them. */
export class LineQueue {
  readonly #lines: string[] = [];
  readonly #waiting: ((line: string) => void)[] = [];

  push(line: string): void {
    const waiting = this.#waiting.shift();
    if (waiting === undefined) this.#lines.push(line);
    else waiting(line);
  }

  /** Resolves with the next line not taken yet. */
  next(): Promise<string> {
    const line = this.#lines.shift();
    if (line !== undefined) return Promise.resolve(line);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}
