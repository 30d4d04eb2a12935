/**
 * Cuts text that arrives in pieces into lines. Of a line longer than `lengthMax` only the beginning
 * is kept, so a program that never ends its line costs no memory.
 */
export class LineSplitter {
  readonly #lengthMax: number;
  /** The beginning of the line whose end has not come yet. */
  #unfinished = "";

  constructor(lengthMax: number) {
    this.#lengthMax = lengthMax;
  }

  /** Takes the next piece and returns the lines it completes, without their ends. */
  push(piece: string): readonly string[] {
    const parts = piece.split("\n");
    const lines: string[] = [];
    for (const [index, part] of parts.entries()) {
      this.#unfinished += part.slice(0, this.#lengthMax - this.#unfinished.length);
      if (index < parts.length - 1) lines.push(this.#take());
    }
    return lines;
  }

  /** Returns the last line, if it came without an end. */
  end(): readonly string[] {
    return this.#unfinished === "" ? [] : [this.#take()];
  }

  #take(): string {
    const line = this.#unfinished;
    this.#unfinished = "";
    return line.endsWith("\r") ? line.slice(0, -1) : line;
  }
}
