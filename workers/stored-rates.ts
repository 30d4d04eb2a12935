import * as z from "zod";
import type { RateLimitsState } from "../src/tenants/rate-limits.ts";
import { logLine } from "./log.ts";

const KEY = "rates";

const Window = z.strictObject({
  slots: z.array(z.strictObject({ slot: z.int().min(0), amount: z.int().positive() })),
});
const Stored = z.strictObject({ requests: Window, tokens: Window });

/** What a tenant began within so long before its object died without a word is forgotten. */
const SAVE_DELAY_MS = 500;

/**
 * Keeps what a tenant has used of its minute beyond the life of its object, which forgets all after
 * ten idle seconds.
 *
 * It is written behind: a write costs an fsync, and making every request wait for one would cost its
 * tenant more than the little that may be forgotten.
 */
export class StoredRates {
  readonly #storage: DurableObjectStorage;
  #isDue = false;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  /** Returns what was stored last. What cannot be read is a minute's worth, so it is as good as none. */
  load(): RateLimitsState | undefined {
    const stored = this.#storage.kv.get(KEY);
    if (stored === undefined) return undefined;
    const parsed = Stored.safeParse(stored);
    if (!parsed.success) logLine("error", "rates-not-readable", { details: parsed.error.message });
    return parsed.data;
  }

  /** Stores the state as it will be in a moment; called after every change. */
  saveSoon(state: RateLimitsState): void {
    if (this.#isDue) return;
    this.#isDue = true;
    setTimeout(() => void this.#save(state), SAVE_DELAY_MS);
  }

  async #save(state: RateLimitsState): Promise<void> {
    this.#isDue = false;
    try {
      // Unconfirmed, or answers to others would be held until the disk has it.
      await this.#storage.put(KEY, state, { allowUnconfirmed: true });
    } catch (error) {
      logLine("error", "rates-not-stored", { details: String(error) });
    }
  }
}
