import { assert } from "../../../src/base/assert.ts";
import { HeldRuns } from "./held-runs.ts";
import type { KvShares } from "./kv-shares.ts";
import type { PrefixCache } from "./prefix-cache.ts";

/** Leases at once; each is a transfer to another engine that is under way, or was. */
export const KV_LEASES_MAX = 64;
/** Prompts that were computed for others, and wait to be fetched. Of more the oldest is on its own. */
export const KV_HOLDS_MAX = 64;
/** Whoever is to fetch what was computed for it asks at once, or when its pool has found it a place. */
export const KV_HOLD_MS = 10_000;

/**
 * Cached blocks that another engine is copying, or is about to: held, so that nothing overwrites them meanwhile,
 * but by nobody's right. A lease that is not renewed ends by itself, and whoever runs here and needs room ends
 * the oldest ones; the other side computes what it did not get.
 *
 * What was computed for another engine is held from its last step on, and until it was read as a lease.
 */
export class KvLeases {
  readonly #leases: HeldRuns;
  readonly #holds: HeldRuns;
  /** Of each lease, how many blocks were read in all. */
  readonly #readBlocks = new Map<string, number>();
  #endedEarly = 0;
  #holdsEndedEarly = 0;

  constructor(shares: KvShares, prefixes: PrefixCache) {
    this.#leases = new HeldRuns(shares, prefixes);
    this.#holds = new HeldRuns(shares, prefixes);
  }

  get count(): number {
    return this.#leases.count;
  }

  /** Leases that ended before they were given back: not renewed in time, or in the way. */
  get endedEarly(): number {
    return this.#endedEarly;
  }

  /** Prompts that are held for who is to fetch them. */
  get holds(): number {
    return this.#holds.count;
  }

  /** Holds that ended before anybody had fetched all of them. */
  get holdsEndedEarly(): number {
    return this.#holdsEndedEarly;
  }

  /**
   * Holds the blocks of the longest beginning of these hashes that can be hit, until `close` or the instant
   * given. Returns how many; `undefined`: there are too many leases.
   */
  open(id: string, hashes: readonly string[], expiresAtMs: number): number | undefined {
    if (this.#leases.count >= KV_LEASES_MAX) return undefined;
    return this.#leases.add(id, hashes, expiresAtMs).length;
  }

  /** Some of a lease's blocks, which may be read until the next step; `undefined` once it has ended. */
  read(id: string, range: { readonly from: number; readonly count: number }) {
    const blocks = this.#leases.blocksOf(id)?.slice(range.from, range.from + range.count);
    if (blocks !== undefined) {
      this.#readBlocks.set(id, (this.#readBlocks.get(id) ?? 0) + blocks.length);
    }
    return blocks;
  }

  /** Puts the end of a lease off. Nothing happens to one that has ended. */
  renew(id: string, expiresAtMs: number): void {
    this.#leases.renew(id, expiresAtMs);
  }

  /**
   * Gives a lease's blocks back, and what was held for its reader, if that has read it to its end. Nothing
   * happens to one that has ended.
   */
  close(id: string): void {
    const blocks = this.#leases.blocksOf(id);
    const last = blocks?.at(-1);
    const isRead = blocks !== undefined && (this.#readBlocks.get(id) ?? 0) >= blocks.length;
    this.#forget(id);
    if (!isRead || last === undefined) return;
    const [oldest] = this.#holds.holding([last]).filter((held) => {
      return this.#holds.blocksOf(held)?.at(-1) === last;
    });
    if (oldest !== undefined) this.#holds.remove(oldest);
  }

  /**
   * Holds what was computed for another engine, until it has read it or the instant given. Returns how many
   * blocks.
   */
  hold(id: string, hashes: readonly string[], expiresAtMs: number): number {
    this.#holds.remove(id);
    const [oldest] = this.#holds.ids;
    if (this.#holds.count >= KV_HOLDS_MAX && oldest !== undefined) this.#endHold(oldest);
    return this.#holds.add(id, hashes, expiresAtMs).length;
  }

  /** Ends what nobody has renewed or fetched in time. Returns whether there was any. */
  expire(nowMs: number): boolean {
    const leases = this.#leases.expired(nowMs);
    const holds = this.#holds.expired(nowMs);
    for (const id of leases) this.#end(id);
    for (const id of holds) this.#endHold(id);
    return leases.length + holds.length > 0;
  }

  /**
   * Ends the oldest holds, then the oldest leases, until there is room for who runs here. Returns whether there
   * is in the end.
   */
  makeRoom(isEnough: () => boolean): boolean {
    if (isEnough()) return true;
    for (const id of this.#holds.ids) {
      this.#endHold(id);
      if (isEnough()) return true;
    }
    for (const id of this.#leases.ids) {
      this.#end(id);
      if (isEnough()) return true;
    }
    return false;
  }

  /** Ends whatever holds any of these, whose content is not trusted. */
  revoke(blocks: readonly number[]): void {
    for (const id of this.#leases.holding(blocks)) this.#end(id);
    for (const id of this.#holds.holding(blocks)) this.#endHold(id);
  }

  /** How often each block is held, for the sum of all that hold it. */
  *heldBlocks(): Generator<number> {
    yield* this.#leases.heldBlocks();
    yield* this.#holds.heldBlocks();
  }

  /** Throws unless leases and holds are bounded, and what they hold can be hit. */
  checkInvariants(): void {
    this.#leases.checkInvariants(KV_LEASES_MAX);
    this.#holds.checkInvariants(KV_HOLDS_MAX);
    assert(this.#readBlocks.size <= this.#leases.count, "Only of leases it is known what was read");
  }

  #end(id: string): void {
    this.#endedEarly += 1;
    this.#forget(id);
  }

  #forget(id: string): void {
    this.#readBlocks.delete(id);
    this.#leases.remove(id);
  }

  #endHold(id: string): void {
    this.#holdsEndedEarly += 1;
    this.#holds.remove(id);
  }
}
