import { assert } from "../../../src/base/assert.ts";

/**
 * A fixed number of KV blocks with reference counts, and the free ones in lists, each in eviction order.
 *
 * A list is a doubly linked ring over block numbers, so that a free block which is hit leaves it
 * from the middle in constant time. At first all blocks are in list 0. There is no null block: every
 * block can be held, since no row of a batch is padded.
 */
export class BlockPool {
  readonly blockCount: number;
  readonly #references: Int32Array;
  /** The list that a free block is in. */
  readonly #lists: Int32Array;
  readonly #freeByList: Int32Array;
  /** Neighbours of a free block; behind those of all blocks, each list has its head and tail. */
  readonly #next: Int32Array;
  readonly #previous: Int32Array;

  constructor(blockCount: number, listCount = 1) {
    assert(
      Number.isInteger(blockCount) && blockCount > 0,
      `A pool needs blocks, not ${blockCount}`,
    );
    this.blockCount = blockCount;
    this.#references = new Int32Array(blockCount);
    this.#lists = new Int32Array(blockCount);
    this.#freeByList = new Int32Array(listCount);
    const entries = blockCount + listCount;
    this.#next = Int32Array.from({ length: entries }, (_, entry) => entry);
    this.#previous = this.#next.slice();
    for (let block = 0; block < blockCount; block++) this.#append(block, 0);
  }

  get freeBlocks(): number {
    return this.#freeByList.reduce((sum, blocks) => sum + blocks, 0);
  }

  get usedBlocks(): number {
    return this.blockCount - this.freeBlocks;
  }

  /** Free blocks in one list. */
  freeBlocksIn(list: number): number {
    return at(this.#freeByList, list);
  }

  referencesOf(block: number): number {
    return at(this.#references, block);
  }

  isFree(block: number): boolean {
    return this.referencesOf(block) === 0;
  }

  /** Hands out the block of a list that is next to be evicted. The caller checks that there is one. */
  take(list = 0): number {
    assert(this.freeBlocksIn(list) > 0, "A block was taken from a list that has none free");
    const block = at(this.#next, this.blockCount + list);
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
   * Removes a holder. A block without holders is free: `evict: "next"` puts it before all others of
   * the list (its content is worth nothing), `"last"` behind them (it may be hit again).
   */
  release(block: number, evict: "next" | "last", list = 0): void {
    const references = this.referencesOf(block);
    assert(references > 0, `Block ${block} was released more often than it was held`);
    this.#references[block] = references - 1;
    if (references > 1) return;
    if (evict === "next") this.#link(this.blockCount + list, block, list);
    else this.#append(block, list);
  }

  /** Moves a free block to the end of another list. */
  move(block: number, list: number): void {
    assert(this.isFree(block), `Block ${block} is in a list, as it is free`);
    this.#unlink(block);
    this.#append(block, list);
  }

  /** The free blocks of a list, the next one to be evicted first. */
  evictionOrder(list = 0): number[] {
    const end = this.blockCount + list;
    const order: number[] = [];
    let block = at(this.#next, end);
    while (block !== end && order.length <= this.blockCount) {
      order.push(block);
      block = at(this.#next, block);
    }
    return order;
  }

  /** Throws unless the lists together hold exactly the blocks without holders, each once. */
  checkInvariants(): void {
    const lists = Array.from(this.#freeByList, (_, list) => this.evictionOrder(list));
    for (const [list, blocks] of lists.entries()) {
      assert(blocks.length === this.freeBlocksIn(list), "A list is as long as it is counted");
      assert(
        blocks.every((block) => at(this.#lists, block) === list),
        "A free block knows its list",
      );
    }
    const order = lists.flat();
    assert(new Set(order).size === order.length, "No block is free twice");
    assert(
      order.every((block) => this.isFree(block)),
      "A free block has no holders",
    );
    const heldBlocks = this.#references.reduce((sum, held) => sum + (held > 0 ? 1 : 0), 0);
    assert(heldBlocks === this.usedBlocks, "Free and held blocks are all blocks");
    for (const entry of [...order, ...lists.map((_, list) => this.blockCount + list)]) {
      const next = at(this.#next, entry);
      assert(at(this.#previous, next) === entry, "A ring reads the same in both directions");
    }
  }

  #unlink(block: number): void {
    const next = at(this.#next, block);
    const previous = at(this.#previous, block);
    this.#next[previous] = next;
    this.#previous[next] = previous;
    this.#count(block, -1);
  }

  #append(block: number, list: number): void {
    this.#link(at(this.#previous, this.blockCount + list), block, list);
  }

  #link(previous: number, block: number, list: number): void {
    const next = at(this.#next, previous);
    this.#next[previous] = block;
    this.#previous[block] = previous;
    this.#next[block] = next;
    this.#previous[next] = block;
    this.#lists[block] = list;
    this.#count(block, 1);
  }

  #count(block: number, change: number): void {
    const list = at(this.#lists, block);
    this.#freeByList[list] = at(this.#freeByList, list) + change;
  }
}

function at(values: Int32Array, index: number): number {
  const value = values[index];
  assert(value !== undefined, `Block ${index} is not of this pool`);
  return value;
}
