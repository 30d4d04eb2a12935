/** A key's use is told once in so long: whoever asks wants to know the day, not the second. */
const TOLD_EVERY_MS = 300_000;
/** Keys that are remembered as told, and of those the ones that wait to be told. */
const KEYS_MAX = 1_000;

/** Which keys an isolate has seen in use, for the Directory. Costs a request a look at a map. */
export class KeyUses {
  /** When a key was told last, the one that was told longest ago first. */
  readonly #toldAtMs = new Map<string, number>();
  #waiting: string[] = [];

  /** Notes that a key is in use now. */
  note(keyHash: string, nowMs: number): void {
    const toldAtMs = this.#toldAtMs.get(keyHash);
    if (toldAtMs !== undefined && nowMs - toldAtMs < TOLD_EVERY_MS) return;
    this.#toldAtMs.delete(keyHash);
    this.#toldAtMs.set(keyHash, nowMs);
    if (this.#toldAtMs.size > KEYS_MAX) {
      const oldest = this.#toldAtMs.keys().next();
      if (oldest.done !== true) this.#toldAtMs.delete(oldest.value);
    }
    // Beyond the bound a use is told when the key is used next.
    if (this.#waiting.length < KEYS_MAX) this.#waiting.push(keyHash);
    else this.#toldAtMs.delete(keyHash);
  }

  /** Hands over the keys that were not told yet. */
  take(): readonly string[] {
    const waiting = this.#waiting;
    this.#waiting = [];
    return waiting;
  }

  /** Takes back keys that could not be told. */
  putBack(keyHashes: readonly string[]): void {
    this.#waiting = [...keyHashes, ...this.#waiting].slice(0, KEYS_MAX);
  }
}

/** Of this isolate. */
export const keyUses = new KeyUses();
