import assert from "node:assert/strict";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  KvShares,
  type KvSharesOptions,
} from "../../../../gpu-backend/engine/kv-cache/kv-shares.ts";

const TENANTS = ["a", "b", "c", "d"];

/** Shares as lists of who owns what: slow, and too simple to be wrong. */
class NaiveShares {
  /** The owner of each block, `undefined` for nobody, and how often it is held. */
  readonly owners: (string | undefined)[];
  readonly held: number[];
  /** Free blocks in the order in which they became free. */
  free: number[];
  readonly #shareBlocks: number;
  readonly #isStrict: boolean;

  constructor(blockCount: number, shareBlocks: number, isStrict: boolean) {
    this.owners = Array.from({ length: blockCount }, () => undefined);
    this.held = Array.from({ length: blockCount }, () => 0);
    this.free = Array.from({ length: blockCount }, (_, block) => block);
    this.#shareBlocks = shareBlocks;
    this.#isStrict = isStrict;
  }

  owned(tenant: string): number {
    return this.owners.filter((owner) => owner === tenant).length;
  }

  /** Takes blocks in thought, one after the other, until none may be taken any more. */
  available(tenant: string): number {
    const copy = new NaiveShares(this.owners.length, this.#shareBlocks, this.#isStrict);
    copy.owners.splice(0, Infinity, ...this.owners);
    copy.free = [...this.free];
    let taken = 0;
    for (;;) {
      const [block] = copy.candidates(tenant);
      if (block === undefined) return taken;
      copy.free = copy.free.filter((other) => other !== block);
      copy.owners[block] = tenant;
      taken += 1;
    }
  }

  /** All free blocks that the tenant may take. */
  candidates(tenant: string): number[] {
    const isFull = this.owned(tenant) >= this.#shareBlocks;
    return this.free.filter((block) => {
      const owner = this.owners[block];
      if (owner === tenant) return true;
      if (this.#isStrict) return owner === undefined && !isFull;
      return owner === undefined || this.owned(owner) > this.#shareBlocks;
    });
  }
}

/** Shares and their naive double, which must agree after every operation. */
class Pair {
  readonly #shares: KvShares;
  readonly #naive: NaiveShares;
  readonly #isDivided: boolean;
  /** Blocks that a tenant took from another one. */
  evictions = 0;

  constructor(blockCount: number, options: KvSharesOptions) {
    this.#shares = new KvShares(blockCount, options);
    this.#naive = new NaiveShares(
      blockCount,
      this.#shares.shareBlocks,
      options.isolation === "strict",
    );
    this.#isDivided = options.shareCount > 1;
  }

  take(tenant: string): void {
    const owner = this.#ownerOf(tenant);
    const share = this.#shares.findShare(tenant);
    if (share === undefined) return;
    const naive = this.#naive;
    for (const block of this.#shares.assignShare(tenant, share)) naive.owners[block] = undefined;
    assert.equal(this.#shares.availableBlocks(share), naive.available(owner));
    if (this.#shares.availableBlocks(share) === 0) return;
    const block = this.#shares.take(share);
    assert(naive.candidates(owner).includes(block), `${tenant} may take block ${block}`);
    if (![undefined, owner].includes(naive.owners[block])) this.evictions += 1;
    naive.owners[block] = owner;
    naive.held[block] = 1;
    naive.free = naive.free.filter((other) => other !== block);
  }

  retain(block: number): void {
    this.#shares.retain(block);
    this.#naive.held[block] = (this.#naive.held[block] ?? 0) + 1;
  }

  release(block: number, isCached: boolean): void {
    const naive = this.#naive;
    this.#shares.release(block, isCached);
    naive.held[block] = (naive.held[block] ?? 0) - 1;
    if (naive.held[block] !== 0) return;
    naive.free.push(block);
    if (!isCached) naive.owners[block] = undefined;
  }

  heldBlocks(tenant: string): number[] {
    const { held, owners } = this.#naive;
    return [...held.keys()].filter(
      (block) => (held[block] ?? 0) > 0 && owners[block] === this.#ownerOf(tenant),
    );
  }

  check(): void {
    this.#shares.checkInvariants();
    const free = this.#shares.evictionOrder();
    assert.equal(free.length, this.#naive.free.length, "As many blocks are free");
    assert.deepEqual(new Set(free), new Set(this.#naive.free));
  }

  #ownerOf(tenant: string): string {
    return this.#isDivided ? tenant : "all";
  }
}

const operation = fc.record({
  kind: fc.constantFrom("take", "take", "take", "take", "release", "release", "release", "retain"),
  tenant: fc.constantFrom(...TENANTS),
  pick: fc.nat(),
  isCached: fc.constantFrom(true, true, true, false),
});
const setting = fc.record({
  blockCount: fc.integer({ min: 6, max: 14 }),
  shareCount: fc.integer({ min: 1, max: 4 }),
  isolation: fc.constantFrom("borrow" as const, "strict" as const),
});

describe("KvShares against lists of owners", () => {
  test("a tenant takes what is nobody's, its own or borrowed, and never what is within another's share", () => {
    let evictions = 0;
    const operations = fc.array(operation, { minLength: 40, maxLength: 120, size: "max" });
    fc.assert(
      fc.property(setting, operations, ({ blockCount, ...options }, steps) => {
        const pair = new Pair(blockCount, options);
        for (const { kind, tenant, pick, isCached } of steps) {
          const held = pair.heldBlocks(tenant);
          const block = held[pick % held.length];
          if (kind === "take") pair.take(tenant);
          else if (block !== undefined && kind === "retain") pair.retain(block);
          else if (block !== undefined) pair.release(block, isCached);
          pair.check();
        }
        evictions += pair.evictions;
      }),
      { numRuns: 300 },
    );
    expect(evictions).toBeGreaterThan(20);
  });
});

const halvesOfEight = (isolation: "borrow" | "strict") =>
  new KvShares(8, { shareCount: 2, isolation });

/** Takes blocks for a tenant and lets them be cached. */
function cache(shares: KvShares, tenant: string, count: number): number[] {
  const share = shares.findShare(tenant) ?? 0;
  shares.assignShare(tenant, share);
  const blocks = Array.from({ length: count }, () => shares.take(share));
  for (const block of blocks) shares.release(block, true);
  shares.checkInvariants();
  return blocks;
}

describe("KvShares", () => {
  test("borrowed blocks are evicted before what the borrower has within its share", () => {
    const shares = halvesOfEight("borrow");
    const borrowed = cache(shares, "a", 7);
    const share = shares.findShare("b") ?? 0;
    shares.assignShare("b", share);
    expect(shares.availableBlocks(share)).toBe(4);
    const taken = Array.from({ length: 4 }, () => shares.take(share));
    // The one that was nobody's, then the three that "a" has beyond its four, the oldest first.
    expect(taken).toEqual([7, ...borrowed.slice(0, 3)]);
    expect(shares.availableBlocks(share)).toBe(0);
    shares.checkInvariants();
  });

  test("who is at its share evicts its own before it borrows, even from one that has borrowed", () => {
    const shares = new KvShares(12, { shareCount: 3, isolation: "borrow" });
    cache(shares, "b", 8);
    const [oldest] = cache(shares, "a", 4);
    const share = shares.findShare("a") ?? 0;
    expect(shares.availableBlocks(share)).toBe(4 + 4);
    expect(shares.take(share)).toBe(oldest);
  });

  test("without borrowing a share is all there is, however empty the pool", () => {
    const shares = halvesOfEight("strict");
    const own = cache(shares, "a", 4);
    const share = shares.findShare("a") ?? 0;
    expect(shares.availableBlocks(share)).toBe(4);
    expect(Array.from({ length: 4 }, () => shares.take(share))).toEqual(own);
    expect(shares.availableBlocks(share)).toBe(0);
  });

  test("a newcomer gets the share of the tenant longest unseen, and none while all are in use", () => {
    const shares = halvesOfEight("borrow");
    const old = cache(shares, "a", 2);
    cache(shares, "b", 2);
    const share = shares.findShare("c");
    expect(share).toBe(shares.findShare("a"));
    expect(shares.assignShare("c", share ?? 0)).toEqual(old);
    expect(shares.findShare("a")).toBe(shares.findShare("b"));
    for (const tenant of ["b", "c"]) shares.take(shares.findShare(tenant) ?? 0);
    expect(shares.findShare("a")).toBeUndefined();
    shares.checkInvariants();
  });
});
