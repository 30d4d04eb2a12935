import type { CachedPrefixes } from "../../src/protocol/engine-api.ts";
import { REPORTED_PREFIXES_MAX } from "../../src/protocol/engine-api.ts";
import { CHAIN_KEY_LENGTH } from "../../src/protocol/prompt-chain.ts";
import type { PrefixChanges } from "./kv-cache/prefix-names.ts";

/**
 * Tells a pool what is cached here, in parts that fit a report: first all of it, then what changes. Whoever
 * takes all parts in order has the whole; who has missed one asks for a beginning.
 */
export class PrefixFeed {
  readonly #names = new Set<string>();
  /** Names that are to be told, and whether they are here; as many at most as there are and were. */
  readonly #untold = new Map<string, boolean>();
  #isBeginning = true;
  #sequence = 0;

  /** Takes in what has changed here. */
  apply({ stored, removed }: PrefixChanges): void {
    for (const name of namesOf(removed)) {
      this.#names.delete(name);
      this.#untold.set(name, false);
    }
    for (const name of namesOf(stored)) {
      this.#names.add(name);
      this.#untold.set(name, true);
    }
    // So many changes say no less than all of it would.
    if (this.#untold.size > 2 * this.#names.size + REPORTED_PREFIXES_MAX) this.restart();
  }

  /** Tells everything from the beginning: to another pool, or to one that has missed something. */
  restart(): void {
    this.#isBeginning = true;
    this.#untold.clear();
    for (const name of this.#names) this.#untold.set(name, true);
  }

  /** Whether there is anything to tell. */
  get hasNews(): boolean {
    return this.#isBeginning || this.#untold.size > 0;
  }

  /** The next part; `undefined` where there is nothing to tell. */
  next(): CachedPrefixes | undefined {
    if (!this.hasNews) return undefined;
    let stored = "";
    let removed = "";
    let count = 0;
    for (const [name, isHere] of this.#untold) {
      if (count >= REPORTED_PREFIXES_MAX) break;
      count += 1;
      this.#untold.delete(name);
      if (isHere) stored += name;
      else removed += name;
    }
    this.#sequence += 1;
    const isWhole = this.#isBeginning;
    this.#isBeginning = false;
    return { sequence: this.#sequence, isWhole, stored, removed };
  }
}

function* namesOf(names: string): Generator<string> {
  for (let start = 0; start < names.length; start += CHAIN_KEY_LENGTH) {
    yield names.slice(start, start + CHAIN_KEY_LENGTH);
  }
}
