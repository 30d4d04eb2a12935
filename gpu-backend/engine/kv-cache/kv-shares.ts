import { assert } from "../../../src/base/assert.ts";
import type { Isolation } from "../scheduling.ts";
import { BlockPool } from "./block-pool.ts";

export interface KvSharesOptions {
  /** Equal parts of the pool, one for each of so many tenants; 1: no shares, the pool is everybody's. */
  readonly shareCount: number;
  readonly isolation: Isolation;
}

/** The owner of blocks that hold nothing worth keeping; tenants have the numbers from 1 on. */
const NOBODY = 0;

/**
 * Divides a pool among tenants: a block counts against the tenant that took it for as long as its
 * content is held or cached.
 *
 * What a tenant has within its share is evicted by that tenant alone. Beyond it, where that is
 * allowed, it has only borrowed: anyone may evict those blocks, and so learns that the pool is
 * in use. A share goes to whoever comes; when all are taken, to a newcomer in place of the tenant
 * longest unseen that holds nothing.
 */
export class KvShares {
  readonly shareBlocks: number;
  readonly #pool: BlockPool;
  readonly #options: KvSharesOptions;
  readonly #owners: Int32Array;
  readonly #ownedBlocks: Int32Array;
  /** The longest unseen first. */
  readonly #tenants = new Map<string, number>();

  constructor(blockCount: number, options: KvSharesOptions) {
    const { shareCount } = options;
    assert(shareCount >= 1 && shareCount <= blockCount, "Every share has a block");
    this.#pool = new BlockPool(blockCount, shareCount + 1);
    this.#options = options;
    this.shareBlocks = Math.floor(blockCount / shareCount);
    this.#owners = new Int32Array(blockCount);
    this.#ownedBlocks = new Int32Array(shareCount + 1);
    this.#ownedBlocks[NOBODY] = blockCount;
  }

  get blockCount(): number {
    return this.#pool.blockCount;
  }

  get usedBlocks(): number {
    return this.#pool.usedBlocks;
  }

  isFree(block: number): boolean {
    return this.#pool.isFree(block);
  }

  referencesOf(block: number): number {
    return this.#pool.referencesOf(block);
  }

  /** The free blocks: what is worth nothing, then what is cached, of each the next to be evicted first. */
  evictionOrder(): number[] {
    return Array.from(this.#ownedBlocks, (_, owner) => this.#pool.evictionOrder(owner)).flat();
  }

  /** The share that is or would be the tenant's; `undefined` while all are in use by others. */
  findShare(tenant: string): number | undefined {
    if (this.#options.shareCount === 1) return 1;
    const own = this.#tenants.get(tenant);
    if (own !== undefined) return own;
    if (this.#tenants.size < this.#options.shareCount) return this.#tenants.size + 1;
    return [...this.#tenants.values()].find((share) => this.heldBlocks(share) === 0);
  }

  /**
   * Makes a share the tenant's, for which `findShare` found it, and notes that it was seen. Returns what the
   * tenant displaced by that had cached: free blocks that must not be hit any more.
   */
  assignShare(tenant: string, share: number): number[] {
    if (this.#options.shareCount === 1) return [];
    const [previous] = [...this.#tenants].find(([, taken]) => taken === share) ?? [];
    if (previous !== undefined) this.#tenants.delete(previous);
    this.#tenants.set(tenant, share);
    return previous === undefined || previous === tenant ? [] : this.#clear(share);
  }

  belongsTo(block: number, share: number): boolean {
    return this.#ownerOf(block) === share;
  }

  /** Blocks of a share that sequences hold; the others that count against it are cached. */
  heldBlocks(share: number): number {
    return this.#owned(share) - this.#pool.freeBlocksIn(share);
  }

  /** Whether so many more blocks would not fit into a tenant's own share; never where there is but one. */
  wouldExceed(tenant: string, blocks: number): boolean {
    if (this.shareBlocks === this.blockCount) return false;
    const share = this.findShare(tenant);
    return share === undefined || this.heldBlocks(share) + blocks > this.shareBlocks;
  }

  /** Whether some of its blocks are borrowed, so that others may take them. */
  isOverdrawn(share: number): boolean {
    return this.#owned(share) > this.shareBlocks;
  }

  /** How many blocks may be taken for a share, counting those that it has cached itself. */
  availableBlocks(share: number): number {
    const own = this.#pool.freeBlocksIn(share);
    const nobodys = this.#pool.freeBlocksIn(NOBODY);
    if (this.#options.isolation === "strict") {
      return own + Math.min(nobodys, this.shareBlocks - this.#owned(share));
    }
    return this.#others(share).reduce((sum, other) => sum + this.#evictable(other), own + nobodys);
  }

  /** Takes a block for a share. The caller has seen that one is available, and forgets its content. */
  take(share: number): number {
    const owner = this.#ownerToTakeFrom(share);
    const block = this.#pool.take(owner);
    this.#setOwner(block, share);
    return block;
  }

  /** Adds a holder to a block of the share that the holder has. */
  retain(block: number): void {
    this.#pool.retain(block);
  }

  /** Removes a holder. A free block counts against its share only as long as it is cached. */
  release(block: number, isCached: boolean): void {
    if (this.referencesOf(block) === 1 && !isCached) this.#setOwner(block, NOBODY);
    this.#pool.release(block, isCached ? "last" : "next", this.#ownerOf(block));
  }

  /** Makes all free blocks nobody's, once nothing is cached any more. */
  clear(): void {
    for (const share of this.#ownedBlocks.keys()) if (share !== NOBODY) this.#clear(share);
  }

  /** Throws unless every block counts once, a free one stands in its owner's list, and shares are kept. */
  checkInvariants(): void {
    this.#pool.checkInvariants();
    for (const [owner, ownedBlocks] of this.#ownedBlocks.entries()) {
      const counted = this.#owners.reduce((sum, other) => sum + (other === owner ? 1 : 0), 0);
      assert(counted === ownedBlocks, `Owner ${owner} has as many blocks as are counted`);
      for (const block of this.#pool.evictionOrder(owner)) {
        assert(this.#ownerOf(block) === owner, `Free block ${block} stands in its owner's list`);
      }
      const isStrict = owner !== NOBODY && this.#options.isolation === "strict";
      assert(!isStrict || ownedBlocks <= this.shareBlocks, `Owner ${owner} borrows nothing`);
    }
    assert(this.heldBlocks(NOBODY) === 0, "A block that is held is somebody's");
    assert(this.#tenants.size <= this.#options.shareCount, "No more tenants than shares");
  }

  /** What is worth nothing first, then what is borrowed, at last what the share has cached itself. */
  #ownerToTakeFrom(share: number): number {
    const isStrict = this.#options.isolation === "strict";
    const isFull = this.#owned(share) >= this.shareBlocks;
    if (this.#pool.freeBlocksIn(NOBODY) > 0 && !(isStrict && isFull)) return NOBODY;
    const hasOwn = this.#pool.freeBlocksIn(share) > 0;
    if (isStrict || (isFull && hasOwn)) return share;
    const lenders = this.#others(share).filter((other) => this.#evictable(other) > 0);
    const [mostOverdrawn] = lenders.toSorted((a, b) => this.#owned(b) - this.#owned(a));
    return mostOverdrawn ?? share;
  }

  #others(share: number): number[] {
    return [...this.#ownedBlocks.keys()].filter((other) => other !== share && other !== NOBODY);
  }

  /** Cached blocks beyond the share, which others may evict. */
  #evictable(share: number): number {
    const borrowed = Math.max(0, this.#owned(share) - this.shareBlocks);
    return Math.min(this.#pool.freeBlocksIn(share), borrowed);
  }

  #clear(share: number): number[] {
    const blocks = this.#pool.evictionOrder(share);
    for (const block of blocks) {
      this.#setOwner(block, NOBODY);
      this.#pool.move(block, NOBODY);
    }
    return blocks;
  }

  #owned(owner: number): number {
    return this.#ownedBlocks[owner] ?? 0;
  }

  #ownerOf(block: number): number {
    return this.#owners[block] ?? NOBODY;
  }

  #setOwner(block: number, owner: number): void {
    const before = this.#ownerOf(block);
    this.#ownedBlocks[before] = this.#owned(before) - 1;
    this.#ownedBlocks[owner] = this.#owned(owner) + 1;
    this.#owners[block] = owner;
  }
}
