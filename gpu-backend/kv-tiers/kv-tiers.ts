import type { BlockBytes } from "../engine/executor/executor.ts";
import type {
  KvPeer,
  KvTier,
  NamedBlock,
  PeerAsk,
  TierBlocks,
  TierPlace,
} from "../engine/kv-cache/kv-tier.ts";
import { NO_PEERS, type PeerStatistics, type PeerTier } from "../kv-peers/peer-tier.ts";
import type { DiskTier } from "./disk-tier.ts";
import { MeasuredCost } from "./measured-cost.ts";
import type { MemoryTier } from "./memory-tier.ts";

export interface KvTiersOptions {
  readonly pool: BlockBytes;
  readonly memory: MemoryTier;
  readonly disk?: DiskTier | undefined;
  /** Other engines, of which a request may name one. */
  readonly peers?: PeerTier | undefined;
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
  readonly peers: PeerStatistics;
}

/** Of an engine that has none. */
export const NO_TIERS: TierStatistics = {
  memoryBytes: 0,
  diskBytes: 0,
  loadedBlocks: 0,
  failedBlocks: 0,
  peers: NO_PEERS,
};

/** Believed of a block until one is loaded: a copy in memory, and a read of a file, as measured on a busy machine. */
const NEAR_MS = 0.1;
const NEAR_MS_PER_MB = 0.2;
const FAR_MS = 0.3;
const FAR_MS_PER_MB = 0.7;
/** A disk that answers slower than this is not waited for: what it would bring is computed. */
const FETCH_MS_MAX = 2000;
/** Blocks that are read from disk at once. */
const READS_MAX = 8;

/**
 * Host memory, and a disk behind it, below the pool of one engine.
 *
 * What the pool evicts goes to memory, and what comes back leaves it. What a request has computed goes to
 * disk when the request ends, so that a replica which is killed has it again. A disk is only ever read while
 * its request waits, and so is a peer, if the request names one.
 */
export class KvTiers implements KvTier {
  readonly #options: KvTiersOptions;
  readonly #nearCost: MeasuredCost;
  readonly #farCost: MeasuredCost;
  /** Fetches that nobody was told of yet. */
  readonly #awaited = new Set<NodeJS.Timeout>();
  #loadedBlocks = 0;
  #failedBlocks = 0;

  constructor(options: KvTiersOptions) {
    this.#options = options;
    const blockMb = options.pool.blockBytes / 1e6;
    this.#nearCost = new MeasuredCost(NEAR_MS + NEAR_MS_PER_MB * blockMb);
    this.#farCost = new MeasuredCost(FAR_MS + FAR_MS_PER_MB * blockMb);
  }

  get statistics(): TierStatistics {
    const { memory, disk } = this.#options;
    return {
      memoryBytes: memory.byteLength,
      diskBytes: disk?.byteLength ?? 0,
      loadedBlocks: this.#loadedBlocks,
      failedBlocks: this.#failedBlocks,
      peers: this.#options.peers?.statistics ?? NO_PEERS,
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

  released(blocks: readonly NamedBlock[]): void {
    const { disk, pool } = this.#options;
    if (disk === undefined) return;
    disk.touch(blocks.map(({ hash }) => hash));
    const missing = blocks.filter(({ hash }) => disk.wants(hash)).slice(0, disk.writesLeft);
    // The end is written first, and so is the first to make room.
    for (const { hash, block } of missing.toReversed()) {
      const bytes = new Uint8Array(pool.blockBytes);
      pool.readBlock(block, bytes);
      disk.put(hash, bytes);
    }
  }

  take(hash: string): ((block: number) => void) | undefined {
    const { memory, pool, nowMs } = this.#options;
    const startedAtMs = nowMs();
    const bytes = memory.take(hash);
    if (bytes === undefined) return undefined;
    return (block) => {
      pool.writeBlock(block, bytes);
      this.#loadedBlocks += 1;
      // With what was evicted for it meanwhile.
      const endedAtMs = nowMs();
      this.#nearCost.record(endedAtMs - startedAtMs, endedAtMs);
    };
  }

  mayAsk({ url }: KvPeer): boolean {
    return this.#options.peers?.mayAsk(url) === true;
  }

  fetch(id: string, hashes: readonly string[], ask?: PeerAsk): void {
    const waits: Wait = { giveUp: () => undefined };
    const timer = setTimeout(() => {
      waits.giveUp();
      this.#arrive(id, timer);
    }, ask?.waitMsMax ?? FETCH_MS_MAX);
    this.#awaited.add(timer);
    // More than memory holds would displace the beginning by the end.
    const fitting = hashes.slice(0, this.#options.memory.blocksMax);
    const { disk } = this.#options;
    const stored = ask === undefined ? fitting : fitting.filter((hash) => disk?.has(hash) === true);
    const parts = [this.#fetchAll(stored, () => this.#awaited.has(timer))];
    if (ask !== undefined) parts.push(this.#fetchFrom(ask, without(fitting, stored), waits));
    void Promise.all(parts).finally(() => this.#arrive(id, timer));
  }

  predictMs({ near, far, peer = 0 }: TierBlocks): number {
    const { nowMs, peers } = this.#options;
    const farMs = far === 0 ? 0 : far * this.#farCost.at(nowMs());
    const peerMs = peers?.predictMs(peer) ?? 0;
    return farMs + peerMs + (near + far + peer) * this.#nearCost.at(nowMs());
  }

  /** Resolves once nothing waits to be written to disk. */
  async whenWritten(): Promise<void> {
    await this.#options.disk?.whenIdle();
  }

  clear(): void {
    this.#options.memory.clear();
    this.#options.disk?.clear();
  }

  #arrive(id: string, timer: NodeJS.Timeout): void {
    clearTimeout(timer);
    if (this.#awaited.delete(timer)) this.#options.onArrived(id);
  }

  /** Brings near what a peer has of these, as it comes. */
  async #fetchFrom({ peer }: PeerAsk, hashes: readonly string[], waits: Wait): Promise<void> {
    const { memory, peers } = this.#options;
    if (peers?.mayAsk(peer.url) !== true || hashes.length === 0) return;
    const keep = (hash: string, bytes: Uint8Array) => memory.put(hash, (kept) => kept.set(bytes));
    await new Promise<void>((end) => {
      waits.giveUp = peers.fetch(peer.url, hashes, { keep, end });
    });
    memory.touch(hashes);
  }

  /** Brings blocks near, in order, so that what arrives in time is a beginning. */
  async #fetchAll(hashes: readonly string[], isAwaited: () => boolean): Promise<void> {
    const { memory, disk, nowMs } = this.#options;
    for (let start = 0; start < hashes.length && isAwaited(); start += READS_MAX) {
      const startedAtMs = nowMs();
      const chunk = hashes.slice(start, start + READS_MAX);
      const blocks = await Promise.all(chunk.map(async (hash) => disk?.get(hash)));
      for (const [index, bytes] of blocks.entries()) {
        if (bytes === undefined) this.#failedBlocks += 1;
        else memory.put(chunk[index] ?? "", (kept) => kept.set(bytes));
      }
      const endedAtMs = nowMs();
      this.#farCost.record((endedAtMs - startedAtMs) / chunk.length, endedAtMs);
      if (blocks.includes(undefined)) break;
    }
    memory.touch(hashes);
    disk?.touch(hashes);
  }
}

/** What is to be done once nobody waits any more. */
interface Wait {
  giveUp: () => void;
}

function without(hashes: readonly string[], others: readonly string[]): string[] {
  const excluded = new Set(others);
  return hashes.filter((hash) => !excluded.has(hash));
}
