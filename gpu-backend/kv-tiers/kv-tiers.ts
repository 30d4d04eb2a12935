import type { BlockBytes } from "../engine/executor/executor.ts";
import type { KvTier, TierPlace } from "../engine/kv-cache/kv-tier.ts";
import type { DiskTier } from "./disk-tier.ts";
import type { MemoryTier } from "./memory-tier.ts";

export interface KvTiersOptions {
  readonly pool: BlockBytes;
  readonly memory: MemoryTier;
  readonly disk?: DiskTier | undefined;
  readonly nowMs: () => number;
  /** Called for each `fetch`, once. */
  readonly onArrived: (id: string) => void;
}

/** What became of blocks below the pool, for metrics. */
export interface TierStatistics {
  readonly memoryBytes: number;
  readonly diskBytes: number;
  readonly loadedBlocks: number;
  /** Blocks that were there and not sound, or could not be read. */
  readonly failedBlocks: number;
}

/** Of an engine that has none. */
export const NO_TIERS: TierStatistics = {
  memoryBytes: 0,
  diskBytes: 0,
  loadedBlocks: 0,
  failedBlocks: 0,
};

/** Believed of a block until one is loaded; a copy in memory, and a read of a small file. */
const NEAR_MS = 0.1;
const FAR_MS = 1;
/** What a new measurement counts. */
const LEARNED = 0.1;
/** A disk that answers slower than this is not waited for: what it would bring is computed. */
const FETCH_MS_MAX = 2000;
/** Blocks that are read from disk at once. */
const READS_MAX = 8;

/**
 * Host memory, and a disk behind it, below the pool of one engine.
 *
 * What the pool evicts goes to memory. What a request has computed goes to disk when the request ends, so
 * that a replica which is killed has it again. A disk is only ever read while its request waits.
 */
export class KvTiers implements KvTier {
  readonly #options: KvTiersOptions;
  #nearMs = NEAR_MS;
  #farMs = FAR_MS;
  #loadedBlocks = 0;
  #failedBlocks = 0;

  constructor(options: KvTiersOptions) {
    this.#options = options;
  }

  get statistics(): TierStatistics {
    const { memory, disk } = this.#options;
    return {
      memoryBytes: memory.byteLength,
      diskBytes: disk?.byteLength ?? 0,
      loadedBlocks: this.#loadedBlocks,
      failedBlocks: this.#failedBlocks,
    };
  }

  placeOf(hash: string): TierPlace {
    const { memory, disk } = this.#options;
    if (memory.has(hash)) return "near";
    return disk?.has(hash) === true ? "far" : undefined;
  }

  evicted(hash: string, block: number): void {
    const { memory, pool } = this.#options;
    memory.put(hash, (bytes) => pool.readBlock(block, bytes));
  }

  released(hash: string, block: number): void {
    const { disk, pool } = this.#options;
    if (disk?.wants(hash) !== true) return;
    const bytes = new Uint8Array(pool.blockBytes);
    pool.readBlock(block, bytes);
    disk.put(hash, bytes);
  }

  load(hash: string, block: number): boolean {
    const { memory, pool, nowMs } = this.#options;
    const startedAtMs = nowMs();
    const bytes = memory.get(hash);
    if (bytes === undefined) {
      this.#failedBlocks += 1;
      return false;
    }
    pool.writeBlock(block, bytes);
    this.#loadedBlocks += 1;
    this.#nearMs += LEARNED * (nowMs() - startedAtMs - this.#nearMs);
    return true;
  }

  fetch(id: string, hashes: readonly string[]): void {
    const timer = setTimeout(() => this.#arrive(id, timer), FETCH_MS_MAX);
    void this.#fetchAll(hashes, () => this.#isAwaited.has(timer)).then(() =>
      this.#arrive(id, timer),
    );
    this.#isAwaited.add(timer);
  }

  predictMs({ near, far }: { readonly near: number; readonly far: number }): number {
    return near * this.#nearMs + far * (this.#farMs + this.#nearMs);
  }

  clear(): void {
    this.#options.memory.clear();
    this.#options.disk?.clear();
  }

  /** Fetches that nobody was told of yet. */
  readonly #isAwaited = new Set<NodeJS.Timeout>();

  #arrive(id: string, timer: NodeJS.Timeout): void {
    clearTimeout(timer);
    if (this.#isAwaited.delete(timer)) this.#options.onArrived(id);
  }

  /** Brings blocks near, in order, so that what arrives in time is a beginning. */
  async #fetchAll(hashes: readonly string[], isAwaited: () => boolean): Promise<void> {
    const { memory, nowMs } = this.#options;
    for (let start = 0; start < hashes.length && isAwaited(); start += READS_MAX) {
      const startedAtMs = nowMs();
      const chunk = hashes.slice(start, start + READS_MAX);
      const blocks = await Promise.all(chunk.map(async (hash) => this.#options.disk?.get(hash)));
      for (const [index, bytes] of blocks.entries()) {
        if (bytes === undefined) this.#failedBlocks += 1;
        else memory.put(chunk[index] ?? "", (kept) => kept.set(bytes));
      }
      const blockMs = (nowMs() - startedAtMs) / chunk.length;
      this.#farMs += LEARNED * (blockMs - this.#farMs);
      if (blocks.includes(undefined)) return;
    }
  }
}
