import { assert } from "../../../src/base/assert.ts";
import type { KvShares } from "./kv-shares.ts";
import type { PrefixCache } from "./prefix-cache.ts";

/** Leases at once; each is a transfer to another engine that is under way, or was. */
export const KV_LEASES_MAX = 16;

interface Lease {
  readonly blocks: readonly number[];
  expiresAtMs: number;
}

/**
 * Cached blocks that another engine is copying: held, so that nothing overwrites them meanwhile, but by
 * nobody's right. A lease that is not renewed ends by itself, and whoever runs here and needs room ends the
 * oldest ones; the other side computes what it did not get.
 */
export class KvLeases {
  readonly #shares: KvShares;
  readonly #prefixes: PrefixCache;
  /** The oldest first. */
  readonly #leases = new Map<string, Lease>();
  #endedEarly = 0;

  constructor(shares: KvShares, prefixes: PrefixCache) {
    this.#shares = shares;
    this.#prefixes = prefixes;
  }

  get count(): number {
    return this.#leases.size;
  }

  /** Leases that ended before they were given back: not renewed in time, or in the way. */
  get endedEarly(): number {
    return this.#endedEarly;
  }

  /**
   * Holds the blocks of the longest beginning of these hashes that can be hit, until `close` or the instant
   * given. Returns how many; `undefined`: there are too many leases.
   */
  open(id: string, hashes: readonly string[], expiresAtMs: number): number | undefined {
    assert(!this.#leases.has(id), `Lease ${id} is open already`);
    if (this.#leases.size >= KV_LEASES_MAX) return undefined;
    const blocks: number[] = [];
    for (const hash of hashes) {
      const block = this.#prefixes.find(hash);
      if (block === undefined || blocks.includes(block)) break;
      blocks.push(block);
    }
    if (blocks.length === 0) return 0;
    for (const block of blocks) this.#shares.retain(block);
    this.#leases.set(id, { blocks, expiresAtMs });
    return blocks.length;
  }

  /** Some of a lease's blocks, which may be read until the next step; `undefined` once it has ended. */
  read(id: string, range: { readonly from: number; readonly count: number }) {
    return this.#leases.get(id)?.blocks.slice(range.from, range.from + range.count);
  }

  /** Puts the end of a lease off. Nothing happens to one that has ended. */
  renew(id: string, expiresAtMs: number): void {
    const lease = this.#leases.get(id);
    if (lease !== undefined) lease.expiresAtMs = expiresAtMs;
  }

  /** Gives a lease's blocks back. Nothing happens to one that has ended. */
  close(id: string): void {
    const lease = this.#leases.get(id);
    if (lease === undefined) return;
    this.#leases.delete(id);
    // The end of the chain is evicted before its beginning.
    for (const block of lease.blocks.toReversed()) {
      this.#shares.release(block, this.#prefixes.has(block));
    }
  }

  /** Ends the leases that nobody has renewed in time. */
  expire(nowMs: number): void {
    for (const [id, { expiresAtMs }] of this.#leases) if (nowMs >= expiresAtMs) this.#end(id);
  }

  /** Ends the oldest leases until there is room for who runs here. Returns whether there is in the end. */
  makeRoom(isEnough: () => boolean): boolean {
    for (const id of this.#leases.keys()) {
      if (isEnough()) return true;
      this.#end(id);
    }
    return isEnough();
  }

  /** Ends the leases that hold any of these, whose content is not trusted. */
  revoke(blocks: readonly number[]): void {
    for (const [id, lease] of this.#leases) {
      if (lease.blocks.some((block) => blocks.includes(block))) this.#end(id);
    }
  }

  /** How often each block is leased, for the sum of all that hold it. */
  *heldBlocks(): Generator<number> {
    for (const { blocks } of this.#leases.values()) yield* blocks;
  }

  /** Throws unless leases are bounded, and what they hold can be hit. */
  checkInvariants(): void {
    assert(this.#leases.size <= KV_LEASES_MAX, "Leases are bounded");
    for (const [id, { blocks }] of this.#leases) {
      assert(blocks.length > 0, `Lease ${id} holds something`);
      for (const block of blocks) {
        assert(this.#prefixes.has(block), `What lease ${id} holds is computed and trusted`);
      }
    }
  }

  #end(id: string): void {
    this.#endedEarly += 1;
    this.close(id);
  }
}
