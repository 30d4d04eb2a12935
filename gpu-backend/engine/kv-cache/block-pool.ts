import { assert } from "../../../src/base/assert.ts";

/**
 * A fixed number of KV blocks with reference counts, and the free ones in eviction order.
 *
 * The free list is a doubly linked ring over block numbers, so that a free block which is hit
 * leaves it from the middle in constant time. There is no null block: every block can be held, since
 * no row of a batch is padded.
 */
export class BlockPool {
  readonly blockCount: number;
  readonly #references: Int32Array;
  /** Neighbours of a free block; the entry at `blockCount` is the ring's head and tail. */
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  #freeBlocks: number;

  constructor(blockCount: number) {
    assert(
      Number.isInteger(blockCount) && blockCount > 0,
      `A pool needs blocks, not ${blockCount}`,
    );
    this.blockCount = blockCount;
    this.#freeBlocks = blockCount;
    this.#references = new Int32Array(blockCount);
    const ringSize = blockCount + 1;
    this.#next = Int32Array.from({ length: ringSize }, (_, block) => (block + 1) % ringSize);
    this.#previous = Int32Array.from(
      { length: ringSize },
      (_, block) => (block + blockCount) % ringSize,
    );
  }

  get freeBlocks(): number {
    return this.#freeBlocks;
  }

  get usedBlocks(): number {
    return this.blockCount - this.#freeBlocks;
  }

  referencesOf(block: number): number {
    return at(this.#references, block);
  }

  isFree(block: number): boolean {
    return this.referencesOf(block) === 0;
  }

  /** Hands out the free block that is next to be evicted. The caller checks that there is one. */
  take(): number {
    assert(this.#freeBlocks > 0, "A block was taken from a pool that has none free");
    const block = at(this.#next, this.blockCount);
    this.#unlink(block);
    this.#references[block] = 1;
    return block;
  }

  /** Adds a holder to a block; a free one thereby leaves the eviction order. */
  retain(block: number): void {
    if (this.isFree(block)) this.#unlink(block);
    this.#references[block] = this.referencesOf(block) + 1;
  }

  /**
   * Removes a holder. A block without holders is free: `evict: "next"` puts it before all others
   * (its content is worth nothing), `"last"` behind them (it may be hit again).
   */
  release(block: number, evict: "next" | "last"): void {
    const references = this.referencesOf(block);
    assert(references > 0, `Block ${block} was released more often than it was held`);
    this.#references[block] = references - 1;
    if (references > 1) return;
    if (evict === "next") this.#link(this.blockCount, block);
    else this.#link(at(this.#previous, this.blockCount), block);
  }

  /** The free blocks, the next one to be evicted first. */
  evictionOrder(): number[] {
    const order: number[] = [];
    let block = at(this.#next, this.blockCount);
    while (block !== this.blockCount && order.length <= this.blockCount) {
      order.push(block);
      block = at(this.#next, block);
    }
    return order;
  }

  /** Throws unless the free list holds exactly the blocks without holders, each once. */
  checkInvariants(): void {
    const order = this.evictionOrder();
    assert(order.length === this.#freeBlocks, "The free list is as long as it is counted");
    assert(new Set(order).size === order.length, "No block is free twice");
    assert(
      order.every((block) => this.isFree(block)),
      "A free block has no holders",
    );
    const heldBlocks = this.#references.reduce((sum, held) => sum + (held > 0 ? 1 : 0), 0);
    assert(heldBlocks === this.usedBlocks, "Free and held blocks are all blocks");
    for (const block of [...order, this.blockCount]) {
      const next = at(this.#next, block);
      assert(at(this.#previous, next) === block, "The ring reads the same in both directions");
    }
  }

  #unlink(block: number): void {
    const next = at(this.#next, block);
    const previous = at(this.#previous, block);
    this.#next[previous] = next;
    this.#previous[next] = previous;
    this.#freeBlocks -= 1;
  }

  #link(previous: number, block: number): void {
    const next = at(this.#next, previous);
    this.#next[previous] = block;
    this.#previous[block] = previous;
    this.#next[block] = next;
    this.#previous[next] = block;
    this.#freeBlocks += 1;
  }
}

function at(values: Int32Array, index: number): number {
  const value = values[index];
  assert(value !== undefined, `Block ${index} is not of this pool`);
  return value;
}
