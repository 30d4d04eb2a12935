import { assert } from "../../../src/base/assert.ts";

/**
 * Which blocks hold the KV of which hash.
 *
 * Two sequences that compute the same block at the same time leave two copies under one hash.
 * Neither is merged into the other, since block tables only grow; evicting one leaves the other.
 */
export class PrefixCache {
  readonly #blocksByHash = new Map<string, Set<number>>();
  readonly #hashByBlock = new Map<number, string>();

  /** The number of blocks that can be hit. */
  get blockCount(): number {
    return this.#hashByBlock.size;
  }

  has(block: number): boolean {
    return this.#hashByBlock.has(block);
  }

  /** A block with this hash, the copy registered first. */
  find(hash: string): number | undefined {
    return this.#blocksByHash.get(hash)?.values().next().value;
  }

  /** Lets a full, computed block be hit from now on. */
  register(hash: string, block: number): void {
    assert(!this.has(block), `Block ${block} is registered already`);
    const copies = this.#blocksByHash.get(hash) ?? new Set();
    this.#blocksByHash.set(hash, copies.add(block));
    this.#hashByBlock.set(block, hash);
  }

  /** Lets a block not be hit any more, as it is about to be overwritten or is not trusted. */
  forget(block: number): void {
    const hash = this.#hashByBlock.get(block);
    if (hash === undefined) return;
    this.#hashByBlock.delete(block);
    const copies = this.#blocksByHash.get(hash);
    copies?.delete(block);
    if (copies?.size === 0) this.#blocksByHash.delete(hash);
  }

  clear(): void {
    this.#blocksByHash.clear();
    this.#hashByBlock.clear();
  }

  /** Throws unless both directions say the same and no hash is kept without a block. */
  checkInvariants(): void {
    let copies = 0;
    for (const [hash, blocks] of this.#blocksByHash) {
      assert(blocks.size > 0, "A hash without blocks is not kept");
      copies += blocks.size;
      for (const block of blocks) {
        assert(this.#hashByBlock.get(block) === hash, `Block ${block} knows its hash`);
      }
    }
    assert(copies === this.#hashByBlock.size, "Every block with a hash is found by it");
  }
}
