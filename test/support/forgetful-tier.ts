import assert from "node:assert/strict";
import type { BlockBytes } from "../../gpu-backend/engine/executor/executor.ts";
import type {
  KvTier,
  NamedBlock,
  PeerAsk,
  TierPlace,
} from "../../gpu-backend/engine/kv-cache/kv-tier.ts";
import type { Random } from "../../src/base/random.ts";

const NEAR_BLOCKS = 16;
const FAR_BLOCKS = 60;
const PEER_BLOCKS = 60;

/**
 * A tier that loses and spoils what it was given, at any time but for what it says it has in one and the
 * same call: as the worst of memories and disks would. What it does load is what was stored.
 */
export class ForgetfulTier implements KvTier {
  pool: BlockBytes | undefined;
  failedLoads = 0;
  fetches = 0;
  peerFetches = 0;
  /** Who waits for a peer. */
  readonly askers = new Set<string>();
  readonly #random: Random;
  readonly #peerRandom: Random;
  readonly #near = new Map<string, Uint8Array>();
  readonly #far = new Map<string, Uint8Array>();
  /** What another engine has computed, as all of one model compute the same. */
  readonly #peer = new Map<string, Uint8Array>();

  /** What becomes of peers is drawn apart. */
  constructor(random: Random, peerRandom: Random) {
    this.#random = random;
    this.#peerRandom = peerRandom;
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
      if (this.#peerRandom() < 0.8) this.#keep(this.#peer, hash, block);
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

  mayAsk(): boolean {
    return this.#peerRandom() < 0.9;
  }

  fetch(id: string, hashes: readonly string[], ask?: PeerAsk): void {
    assert(hashes.length > 0, "Something is to be fetched");
    this.fetches += 1;
    if (ask !== undefined) {
      this.peerFetches += 1;
      this.askers.add(id);
    }
    for (const hash of hashes) {
      const bytes = this.#far.get(hash) ?? (ask && this.#peer.get(hash));
      assert(bytes !== undefined || ask !== undefined, "What is fetched is far, or at a peer");
      // A peer breaks off where it likes.
      if (bytes === undefined) break;
      if (this.#random() < 0.8) this.#near.set(hash, bytes);
    }
  }

  predictMs(): number {
    return this.#random() < 0.95 ? 0 : 1000;
  }

  clear(): void {
    this.#near.clear();
    this.#far.clear();
    this.#peer.clear();
  }

  #keep(kept: Map<string, Uint8Array>, hash: string, block: number): void {
    assert(this.pool !== undefined);
    const bytes = new Uint8Array(this.pool.blockBytes);
    this.pool.readBlock(block, bytes);
    const known = kept.get(hash);
    assert(known === undefined || Buffer.from(known).equals(bytes), "Equal hashes are equal KV");
    kept.set(hash, bytes);
    const [oldest = ""] = kept.keys();
    const random = kept === this.#peer ? this.#peerRandom : this.#random;
    const isFull = kept.size > this.#blocksMaxOf(kept);
    if (isFull || random() < 0.05) kept.delete(oldest);
  }

  #blocksMaxOf(kept: Map<string, Uint8Array>): number {
    if (kept === this.#near) return NEAR_BLOCKS;
    return kept === this.#far ? FAR_BLOCKS : PEER_BLOCKS;
  }
}
