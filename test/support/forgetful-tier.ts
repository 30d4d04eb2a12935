import assert from "node:assert/strict";
import type { BlockBytes } from "../../gpu-backend/engine/executor/executor.ts";
import type { KvTier, NamedBlock, TierPlace } from "../../gpu-backend/engine/kv-cache/kv-tier.ts";
import type { Random } from "../../src/base/random.ts";

const NEAR_BLOCKS = 10;
const FAR_BLOCKS = 60;

/**
 * A tier that loses and spoils what it was given, at any time but for what it says it has in one and the
 * same call: as the worst of memories and disks would. What it does load is what was stored.
 */
export class ForgetfulTier implements KvTier {
  pool: BlockBytes | undefined;
  failedLoads = 0;
  fetches = 0;
  readonly #random: Random;
  readonly #near = new Map<string, Uint8Array>();
  readonly #far = new Map<string, Uint8Array>();

  constructor(random: Random) {
    this.#random = random;
  }

  placeOf(hash: string): TierPlace {
    if (this.#near.has(hash)) return "near";
    return this.#far.has(hash) ? "far" : undefined;
  }

  evicted(hash: string, block: number): void {
    this.#keep(this.#random() < 0.7 ? this.#near : this.#far, hash, block);
  }

  released(blocks: readonly NamedBlock[]): void {
    for (const { hash, block } of blocks) {
      if (this.#random() < 0.7) this.#keep(this.#far, hash, block);
    }
  }

  take(hash: string): ((block: number) => void) | undefined {
    const bytes = this.#near.get(hash);
    this.#near.delete(hash);
    if (bytes === undefined || this.#random() < 0.2) {
      this.failedLoads += 1;
      return undefined;
    }
    return (block) => this.pool?.writeBlock(block, bytes);
  }

  fetch(_id: string, hashes: readonly string[]): void {
    assert(hashes.length > 0, "Something is to be fetched");
    this.fetches += 1;
    for (const hash of hashes) {
      const bytes = this.#far.get(hash);
      assert(bytes !== undefined, "What is fetched is far");
      if (this.#random() < 0.8) this.#near.set(hash, bytes);
    }
  }

  predictMs(): number {
    return this.#random() < 0.95 ? 0 : 1000;
  }

  clear(): void {
    this.#near.clear();
    this.#far.clear();
  }

  #keep(kept: Map<string, Uint8Array>, hash: string, block: number): void {
    assert(this.pool !== undefined);
    const bytes = new Uint8Array(this.pool.blockBytes);
    this.pool.readBlock(block, bytes);
    const known = kept.get(hash);
    assert(known === undefined || Buffer.from(known).equals(bytes), "Equal hashes are equal KV");
    kept.set(hash, bytes);
    const [oldest = ""] = kept.keys();
    const isFull = kept.size > (kept === this.#near ? NEAR_BLOCKS : FAR_BLOCKS);
    if (isFull || this.#random() < 0.05) kept.delete(oldest);
  }
}
