import { assert } from "../base/assert.ts";
import type { TenantAccess } from "./tenant-access.ts";

/** How long an answer of the Directory is taken for true without asking again. */
export const ACCESS_FRESH_MS = 5_000;
/** How long a known key is served while the Directory cannot be asked. */
export const ACCESS_LAST_GOOD_MS = 600_000;
/** How long we wait before we ask a Directory again that did not answer. */
export const ACCESS_RETRY_MS = 1_000;
/** Keys remembered in each of the two halves, known and unknown. */
export const ACCESS_ENTRIES_MAX = 1_000;

interface Entry {
  readonly access: TenantAccess;
  /** When the Directory last confirmed it. */
  readonly confirmedAtMs: number;
  askAgainAtMs: number;
}

/** What is remembered of a key's hash: an answer to serve, or the need to ask the Directory. */
export type RememberedAccess =
  | { readonly kind: "known"; readonly access: TenantAccess }
  | { readonly kind: "unknown" }
  | { readonly kind: "ask" };

/**
 * What one isolate remembers of the Directory's answers. Known and unknown keys are kept apart, so
 * that a flood of invented keys never pushes out a real one; each half forgets its least recently
 * used entry first.
 */
export class AccessCache {
  readonly #known = new Map<string, Entry>();
  /** Until when a hash counts as unknown. */
  readonly #unknownUntilAtMs = new Map<string, number>();

  /** Returns what to answer for a key now. */
  recall(keyHash: string, nowMs: number): RememberedAccess {
    const entry = this.#known.get(keyHash);
    if (entry !== undefined && nowMs < entry.askAgainAtMs) {
      touch(this.#known, keyHash, entry);
      return { kind: "known", access: entry.access };
    }
    const unknownUntilAtMs = this.#unknownUntilAtMs.get(keyHash);
    if (unknownUntilAtMs !== undefined && nowMs < unknownUntilAtMs) return { kind: "unknown" };
    return { kind: "ask" };
  }

  /** Remembers the Directory's answer: whose key it is, or that it is nobody's. */
  learn(keyHash: string, access: TenantAccess | undefined, nowMs: number): void {
    const freshUntilAtMs = nowMs + ACCESS_FRESH_MS;
    if (access === undefined) {
      this.#known.delete(keyHash);
      touch(this.#unknownUntilAtMs, keyHash, freshUntilAtMs);
    } else {
      this.#unknownUntilAtMs.delete(keyHash);
      touch(this.#known, keyHash, { access, confirmedAtMs: nowMs, askAgainAtMs: freshUntilAtMs });
    }
  }

  /**
   * Returns the last good answer while the Directory is away, and spares the Directory for
   * `ACCESS_RETRY_MS`. Undefined once it is older than `ACCESS_LAST_GOOD_MS`: a revoked key must
   * not live on for as long as an outage.
   */
  recallLastGood(keyHash: string, nowMs: number): TenantAccess | undefined {
    const entry = this.#known.get(keyHash);
    if (entry === undefined) return undefined;
    const lastGoodUntilAtMs = entry.confirmedAtMs + ACCESS_LAST_GOOD_MS;
    if (nowMs >= lastGoodUntilAtMs) return undefined;
    entry.askAgainAtMs = Math.min(nowMs + ACCESS_RETRY_MS, lastGoodUntilAtMs);
    touch(this.#known, keyHash, entry);
    return entry.access;
  }

  /** Returns what was good lately, to be asked about anew; such a key is nobody's guess. */
  recallGood(keyHash: string, nowMs: number): TenantAccess | undefined {
    const entry = this.#known.get(keyHash);
    if (entry === undefined || nowMs >= entry.confirmedAtMs + ACCESS_LAST_GOOD_MS) return undefined;
    return entry.access;
  }

  checkInvariants(): void {
    assert(this.#known.size <= ACCESS_ENTRIES_MAX, "too many known keys");
    assert(this.#unknownUntilAtMs.size <= ACCESS_ENTRIES_MAX, "too many unknown keys");
    for (const keyHash of this.#known.keys()) {
      assert(!this.#unknownUntilAtMs.has(keyHash), "a key is both known and unknown");
    }
  }
}

/** Puts an entry last, where it is forgotten last, and drops the first one when the map is full. */
function touch<Value>(entries: Map<string, Value>, keyHash: string, value: Value): void {
  entries.delete(keyHash);
  entries.set(keyHash, value);
  if (entries.size <= ACCESS_ENTRIES_MAX) return;
  const oldest = entries.keys().next();
  if (oldest.done !== true) entries.delete(oldest.value);
}
