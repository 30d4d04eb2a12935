import assert from "node:assert/strict";
import type { BlockBytes } from "../../gpu-backend/engine/executor/executor.ts";
import type { KvTier, TierPlace } from "../../gpu-backend/engine/kv-cache/kv-tier.ts";
import type { Random } from "../../src/base/random.ts";

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
    this.#keep(this.#near, hash, block);
  }

  released(hash: string, block: number): void {
    if (this.#random() < 0.3) this.#keep(this.#far, hash, block);
  }

  load(hash: string, block: number): boolean {
    const bytes = this.#near.get(hash);
    if (bytes === undefined || this.#random() < 0.1) {
      this.failedLoads += 1;
      this.#near.delete(hash);
      return false;
    }
    this.pool?.writeBlock(block, bytes);
    return true;
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
    return this.#random() < 0.9 ? 0 : 1000;
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
    if (kept.size > 20 || this.#random() < 0.05) kept.delete(oldest);
  }
}
