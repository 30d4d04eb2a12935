import { assert } from "../../../src/base/assert.ts";
import { CHAIN_KEY_LENGTH } from "../../../src/protocol/prompt-chain.ts";

/** Prompts of many short words cut one block at many places; the names that came last are kept. */
const NAMES_PER_BLOCK_MAX = 8;

/** Names that have come or gone, without gaps between them. */
export interface PrefixChanges {
  readonly stored: string;
  readonly removed: string;
}

/**
 * By which names gateways know what is cached here. A name belongs to the block that holds the end of the
 * beginning which it stands for, and lives as long as that block can be hit. Blocks of equal content have
 * their names in common, so several may carry one.
 */
export class PrefixNames {
  readonly #namesByHash = new Map<string, Set<string>>();
  /** How many blocks carry each name. */
  readonly #carriers = new Map<string, number>();
  /** Names whose being here has changed since that was taken last, and what it was then. */
  readonly #changed = new Map<string, boolean>();

  get size(): number {
    return this.#carriers.size;
  }

  /** A block that can be hit carries these names too. */
  add(hash: string, names: readonly string[]): void {
    if (names.length === 0) return;
    const carried = this.#namesByHash.get(hash) ?? new Set<string>();
    this.#namesByHash.set(hash, carried);
    for (const name of names) {
      if (carried.has(name)) continue;
      carried.add(name);
      this.#count(name, 1);
    }
    for (const name of carried) {
      if (carried.size <= NAMES_PER_BLOCK_MAX) break;
      carried.delete(name);
      this.#count(name, -1);
    }
  }

  /** A block cannot be hit any more. */
  remove(hash: string): void {
    for (const name of this.#namesByHash.get(hash) ?? []) this.#count(name, -1);
    this.#namesByHash.delete(hash);
  }

  clear(): void {
    for (const hash of this.#namesByHash.keys()) this.remove(hash);
  }

  /** Takes what has changed since it was taken last; `undefined` where nothing has. */
  takeChanges(): PrefixChanges | undefined {
    let stored = "";
    let removed = "";
    for (const [name, wasHere] of this.#changed) {
      const isHere = this.#carriers.has(name);
      if (isHere === wasHere) continue;
      if (isHere) stored += name;
      else removed += name;
    }
    this.#changed.clear();
    return stored === "" && removed === "" ? undefined : { stored, removed };
  }

  /** `canBeHit` knows the blocks: none but those carry names. */
  checkInvariants(canBeHit: (hash: string) => boolean): void {
    const carriers = new Map<string, number>();
    for (const [hash, names] of this.#namesByHash) {
      assert(canBeHit(hash), "What cannot be hit has no names");
      assert(names.size <= NAMES_PER_BLOCK_MAX, "The names of a block are bounded");
      for (const name of names) carriers.set(name, (carriers.get(name) ?? 0) + 1);
    }
    assert(carriers.size === this.#carriers.size, "Every name is carried by a block");
    for (const [name, count] of carriers) {
      assert(this.#carriers.get(name) === count, "A name counts the blocks that carry it");
      assert(name.length === CHAIN_KEY_LENGTH, "Names have one length");
    }
  }

  #count(name: string, change: 1 | -1): void {
    const before = this.#carriers.get(name) ?? 0;
    const now = before + change;
    if (now === 0) this.#carriers.delete(name);
    else this.#carriers.set(name, now);
    if ((before === 0 || now === 0) && !this.#changed.has(name)) {
      this.#changed.set(name, before > 0);
    }
  }
}
