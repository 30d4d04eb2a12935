import { assert } from "../base/assert.ts";
import { addressBlockOf } from "./address-block.ts";

/** Wrong keys that one address may send in a row, and how long until it may send one more. */
export const FAILURES_BURST = 20;
export const FAILURE_INTERVAL_MS = 6_000;
/** Addresses remembered; beyond, the one that failed longest ago is forgotten. */
export const ADDRESSES_MAX = 4_096;

/** Keys nobody has met yet that are looked up in a row, whoever sends them, and how fast after that. */
export const LOOKUPS_BURST = 2_000;
export const LOOKUP_INTERVAL_MS = 2;

const FAILURES_MS = FAILURES_BURST * FAILURE_INTERVAL_MS;
const LOOKUPS_MS = LOOKUPS_BURST * LOOKUP_INTERVAL_MS;

/**
 * Keeps those without a key from making work: who sends wrong keys again and again is not listened to for a
 * while, and unknown keys of all together are looked up no faster than a bound, so that addresses by the
 * thousand help nobody. Each limit is one instant, up to which its allowance is used.
 */
export class AddressGuard {
  /** By block of addresses, the one that failed last at the end. */
  readonly #usedUntilAtMs = new Map<string, number>();
  #lookupsUsedUntilAtMs = 0;

  /** Notes that a request failed to say who it is. Who has no address is not told apart from others. */
  failed(address: string | undefined, nowMs: number): void {
    const block = addressBlockOf(address);
    if (block === undefined) return;
    const usedUntilAtMs = usedUntil(this.#usedUntilAtMs.get(block), FAILURES_MS, nowMs);
    this.#usedUntilAtMs.delete(block);
    if (this.#usedUntilAtMs.size >= ADDRESSES_MAX) {
      const [oldest] = this.#usedUntilAtMs.keys();
      if (oldest !== undefined) this.#usedUntilAtMs.delete(oldest);
    }
    // One that is blocked does not make it worse: it would be so for ever.
    const laterAtMs = Math.min(usedUntilAtMs + FAILURE_INTERVAL_MS, nowMs + FAILURES_MS);
    this.#usedUntilAtMs.set(block, laterAtMs);
  }

  /** How long an address is not listened to unless its key is known; 0: it is. */
  blockedMs(address: string | undefined, nowMs: number): number {
    const block = addressBlockOf(address);
    if (block === undefined) return 0;
    const usedUntilAtMs = usedUntil(this.#usedUntilAtMs.get(block), FAILURES_MS, nowMs);
    return Math.max(0, usedUntilAtMs - nowMs - FAILURES_MS + FAILURE_INTERVAL_MS);
  }

  /** Takes one look-up of a key that nobody has met yet; false: there were too many. */
  takeLookup(nowMs: number): boolean {
    const usedUntilAtMs = usedUntil(this.#lookupsUsedUntilAtMs, LOOKUPS_MS, nowMs);
    if (usedUntilAtMs + LOOKUP_INTERVAL_MS > nowMs + LOOKUPS_MS) return false;
    this.#lookupsUsedUntilAtMs = usedUntilAtMs + LOOKUP_INTERVAL_MS;
    return true;
  }

  checkInvariants(): void {
    assert(this.#usedUntilAtMs.size <= ADDRESSES_MAX, "the addresses are within their bound");
  }
}

/** Up to when an allowance is used: never in the past, and not in a future that only another clock has seen. */
function usedUntil(known: number | undefined, allowanceMs: number, nowMs: number): number {
  const knownAtMs = known ?? 0;
  return knownAtMs > nowMs + allowanceMs ? nowMs : Math.max(nowMs, knownAtMs);
}
