import { assert } from "../../../src/base/assert.ts";
import type { KvShares } from "./kv-shares.ts";
import type { PrefixCache } from "./prefix-cache.ts";

interface Run {
  readonly blocks: readonly number[];
  expiresAtMs: number;
}

/** Beginnings of prompts that are held for somebody elsewhere, each under an id and until an instant. */
export class HeldRuns {
  readonly #shares: KvShares;
  readonly #prefixes: PrefixCache;
  /** The oldest first. */
  readonly #runs = new Map<string, Run>();

  constructor(shares: KvShares, prefixes: PrefixCache) {
    this.#shares = shares;
    this.#prefixes = prefixes;
  }

  get count(): number {
    return this.#runs.size;
  }

  /** The oldest first. */
  get ids(): readonly string[] {
    return [...this.#runs.keys()];
  }

  /** Holds the longest beginning of these hashes that can be hit. Returns its blocks; without any there is no run. */
  add(id: string, hashes: readonly string[], expiresAtMs: number): readonly number[] {
    assert(!this.#runs.has(id), `${id} holds something already`);
    const blocks: number[] = [];
    for (const hash of hashes) {
      const block = this.#prefixes.find(hash);
      if (block === undefined || blocks.includes(block)) break;
      blocks.push(block);
    }
    if (blocks.length === 0) return blocks;
    for (const block of blocks) this.#shares.retain(block);
    this.#runs.set(id, { blocks, expiresAtMs });
    return blocks;
  }

  /** What is held; `undefined` once it has ended. */
  blocksOf(id: string): readonly number[] | undefined {
    return this.#runs.get(id)?.blocks;
  }

  /** Puts the end off. Nothing happens to what has ended. */
  renew(id: string, expiresAtMs: number): void {
    const run = this.#runs.get(id);
    if (run !== undefined) run.expiresAtMs = expiresAtMs;
  }

  /** Gives the blocks back. Returns false if they were before. */
  remove(id: string): boolean {
    const run = this.#runs.get(id);
    if (run === undefined) return false;
    this.#runs.delete(id);
    // The end of the chain is evicted before its beginning.
    for (const block of run.blocks.toReversed()) {
      this.#shares.release(block, this.#prefixes.has(block));
    }
    return true;
  }

  /** Whose instant has come. */
  expired(nowMs: number): readonly string[] {
    return this.ids.filter((id) => nowMs >= (this.#runs.get(id)?.expiresAtMs ?? Infinity));
  }

  /** Who holds any of these, the oldest first. */
  holding(blocks: readonly number[]): readonly string[] {
    const wanted = new Set(blocks);
    return this.ids.filter((id) => this.blocksOf(id)?.some((block) => wanted.has(block)) === true);
  }

  /** Each block as often as it is held. */
  *heldBlocks(): Generator<number> {
    for (const { blocks } of this.#runs.values()) yield* blocks;
  }

  /** Throws unless they are bounded, and what they hold can be hit. */
  checkInvariants(countMax: number): void {
    assert(this.#runs.size <= countMax, "What is held for others is bounded");
    for (const [id, { blocks }] of this.#runs) {
      assert(blocks.length > 0, `${id} holds something`);
      for (const block of blocks) {
        assert(this.#prefixes.has(block), `What ${id} holds is computed and trusted`);
      }
    }
  }
}
