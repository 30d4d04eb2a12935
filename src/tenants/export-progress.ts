import { assert } from "../base/assert.ts";

/** How long a counted request waits for others to be sent with. */
export const EXPORT_DELAY_MS = 2_000;
/** After the first failure; doubled with each further one. */
export const EXPORT_RETRY_MS_MIN = 1_000;
export const EXPORT_RETRY_MS_MAX = 600_000;

/** How far one receiver of a ledger's counted requests is, and when it is sent more. */
export class ExportProgress {
  #sentNumber: number;
  #failures = 0;
  #retryAtMs = -Infinity;

  constructor(sentNumber = 0) {
    this.#sentNumber = sentNumber;
  }

  /** Whatever has a number up to this was sent, or is gone. */
  get sentNumber(): number {
    return this.#sentNumber;
  }

  /** Attempts in a row that failed. */
  get failures(): number {
    return this.#failures;
  }

  /** When to send what there is by now up to a number; `Infinity` while nothing waits. */
  nextAtMs(lastNumber: number, nowMs: number): number {
    if (this.#sentNumber >= lastNumber) return Infinity;
    return this.#failures > 0 ? this.#retryAtMs : nowMs + EXPORT_DELAY_MS;
  }

  /** Whether an attempt may be made now. */
  mayTry(nowMs: number): boolean {
    return nowMs >= this.#retryAtMs;
  }

  /** Passes over what its ledger no longer has. Returns how many there were. */
  passOver(firstKeptNumber: number): number {
    const lost = Math.max(0, firstKeptNumber - 1 - this.#sentNumber);
    this.#sentNumber += lost;
    return lost;
  }

  sent(number: number): void {
    assert(number > this.#sentNumber, "what was sent comes after what was sent before");
    this.#sentNumber = number;
    this.#failures = 0;
    this.#retryAtMs = -Infinity;
  }

  failed(nowMs: number): void {
    this.#failures += 1;
    const delayMs = EXPORT_RETRY_MS_MIN * 2 ** (this.#failures - 1);
    this.#retryAtMs = nowMs + Math.min(delayMs, EXPORT_RETRY_MS_MAX);
  }
}
