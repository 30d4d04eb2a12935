import { bytesText } from "./bytes-text.ts";
import type { PullProgress } from "./pull-model.ts";

/** Where a bar is drawn: a stream that may be a screen. */
export interface BarStream {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

const REDRAW_MS = 100;
const BAR_CHARACTERS = 24;
const COLUMNS_DEFAULT = 80;

/** A bar of what has come, on a screen; nothing anywhere else. */
export class ProgressBar {
  readonly #stream: BarStream;
  readonly #nowMs: () => number;
  #startedAtMs: number | undefined;
  #startBytes = 0;
  #drawnAtMs = -Infinity;

  constructor(stream: BarStream, nowMs: () => number) {
    this.#stream = stream;
    this.#nowMs = nowMs;
  }

  update(progress: PullProgress): void {
    if (this.#stream.isTTY !== true) return;
    const nowMs = this.#nowMs();
    if (this.#startedAtMs === undefined) {
      this.#startedAtMs = nowMs;
      this.#startBytes = progress.doneBytes;
    }
    const isDone = progress.doneBytes === progress.totalBytes;
    if (nowMs - this.#drawnAtMs < REDRAW_MS && !isDone) return;
    this.#drawnAtMs = nowMs;
    const perMs = (progress.doneBytes - this.#startBytes) / Math.max(nowMs - this.#startedAtMs, 1);
    this.#draw(toLine(progress, Math.max(perMs, 0) * 1000));
  }

  /** Takes the bar away. */
  end(): void {
    if (this.#startedAtMs !== undefined) this.#draw("");
  }

  #draw(line: string): void {
    const width = (this.#stream.columns ?? COLUMNS_DEFAULT) - 1;
    this.#stream.write(`\r\u001B[K${line.slice(0, width)}`);
  }
}

function toLine({ path, doneBytes, totalBytes }: PullProgress, bytesPerSecond: number): string {
  const share = totalBytes === 0 ? 1 : doneBytes / totalBytes;
  const filled = Math.round(share * BAR_CHARACTERS);
  const bar = "#".repeat(filled).padEnd(BAR_CHARACTERS, ".");
  const amount = `${bytesText(doneBytes)} of ${bytesText(totalBytes)}`;
  return `[${bar}] ${Math.floor(share * 100)} % ${amount}, ${bytesText(bytesPerSecond)}/s ${path}`;
}
