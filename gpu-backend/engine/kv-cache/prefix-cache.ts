import { assert } from "../../../src/base/assert.ts";
import type { BlockChain } from "./block-chain.ts";
import type { KvEvent, KvEventLog } from "./kv-event-log.ts";

/**
 * Which blocks hold the KV of which hash.
 *
 * Two sequences that compute the same block at the same time leave two copies under one hash.
 * Neither is merged into the other, since block tables only grow; evicting one leaves the other.
 */
export class PrefixCache {
  readonly #blocksByHash = new Map<string, Set<number>>();
  readonly #hashByBlock = new Map<number, string>();
  readonly #log: Pick<KvEventLog, "add"> | undefined;

  /** What can be hit, and what no longer can, is told to the log if there is one. */
  constructor(log?: Pick<KvEventLog, "add">) {
    this.#log = log;
  }

  /** The number of blocks that can be hit. */
  get blockCount(): number {
    return this.#hashByBlock.size;
  }

  has(block: number): boolean {
    return this.#hashByBlock.has(block);
  }

  /** The hash that nobody could hit any more without this block; `undefined` if there is a copy, or none. */
  onlyHashOf(block: number): string | undefined {
    const hash = this.#hashByBlock.get(block);
    if (hash === undefined || this.#blocksByHash.get(hash)?.size !== 1) return undefined;
    return hash;
  }

  /** A block with this hash, the copy registered first. */
  find(hash: string): number | undefined {
    return this.#blocksByHash.get(hash)?.values().next().value;
  }

  /** The blocks of the longest prefix that can be hit, at most so many, in order. */
  findPrefix(chain: BlockChain, blocksMax: number): number[] {
    const blocks: number[] = [];
    while (blocks.length < blocksMax) {
      const block = this.find(chain.hashAt(blocks.length));
      if (block === undefined) break;
      blocks.push(block);
    }
    return blocks;
  }

  /** Lets a full, computed block be hit from now on. */
  register(hash: string, block: number): void {
    assert(!this.has(block), `Block ${block} is registered already`);
    const copies = this.#blocksByHash.get(hash) ?? new Set();
    this.#blocksByHash.set(hash, copies.add(block));
    this.#hashByBlock.set(block, hash);
    if (copies.size === 1) this.#tell({ kind: "stored", hash });
  }

  /** Lets a block not be hit any more, as it is about to be overwritten or is not trusted. */
  forget(block: number): void {
    const hash = this.#hashByBlock.get(block);
    if (hash === undefined) return;
    this.#hashByBlock.delete(block);
    const copies = this.#blocksByHash.get(hash);
    copies?.delete(block);
    if (copies?.size !== 0) return;
    this.#blocksByHash.delete(hash);
    this.#tell({ kind: "removed", hash });
  }

  clear(): void {
    this.#blocksByHash.clear();
    this.#hashByBlock.clear();
    this.#tell({ kind: "all-cleared" });
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

  #tell(event: KvEvent): void {
    this.#log?.add(event, () => this.#blocksByHash.keys());
  }
}
