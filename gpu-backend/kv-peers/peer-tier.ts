import { assert } from "../../src/base/assert.ts";
import { KV_BLOCKS_MAX } from "../../src/protocol/kv-blocks.ts";
import type { KvVersion } from "../kv-tiers/kv-block-file.ts";
import { MeasuredCost } from "../kv-tiers/measured-cost.ts";
import type { FetchOutcome, FromEngine, ToEngine } from "./kv-messages.ts";

export interface PeerTierOptions {
  /** The engines that may be asked, and nobody else. */
  readonly urls: readonly string[];
  readonly version: KvVersion;
  readonly nowMs: () => number;
  readonly post: (message: FromEngine) => void;
  /** Told what an operator ought to know of a peer, once for each spell of it. */
  readonly onFault: (message: string) => void;
}

/** What became of KV at other engines, for metrics. */
export interface PeerStatistics {
  readonly loadedBlocks: number;
  readonly loadedBytes: number;
  readonly fetches: number;
  /** Of them those that brought less than was there: not in time, refused, or not sound. */
  readonly failedFetches: number;
}

/** Of an engine that has no peers. */
export const NO_PEERS: PeerStatistics = {
  loadedBlocks: 0,
  loadedBytes: 0,
  fetches: 0,
  failedFetches: 0,
};

/** Fetches under way at once, as many as requests run unless it is said otherwise; who comes on top computes. */
const FETCHES_MAX = 16;
/** Until the first block is here, whatever follows; and believed of a block until one has come. */
const FIXED_MS = 5;
const BLOCK_MS = 0.2;
const BLOCK_MS_PER_MB = 2;
/** A peer that failed is left alone for so long, and one whose KV is of no use here for longer. */
const FAILED_REST_MS = 5_000;
const REFUSED_REST_MS = 60_000;

/** A fetch that somebody waits for. */
interface OpenFetch {
  readonly url: string;
  readonly hashes: readonly string[];
  readonly startedAtMs: number;
  readonly keep: (hash: string, bytes: Uint8Array) => void;
  readonly end: () => void;
  loadedBlocks: number;
}

/**
 * Other engines as a place from which KV comes, seen from the engine's thread: what is to be asked for leaves
 * by `post`, and what comes is heard by `hear`. A fetch brings a beginning of what it was for, or nothing.
 */
export class PeerTier {
  readonly #options: PeerTierOptions;
  readonly #urls: ReadonlySet<string>;
  readonly #open = new Map<number, OpenFetch>();
  /** Until when a peer is not asked. */
  readonly #restsUntilMs = new Map<string, number>();
  readonly #blockCost: MeasuredCost;
  #fetches = 0;
  #failedFetches = 0;
  #loadedBlocks = 0;

  constructor(options: PeerTierOptions) {
    this.#options = options;
    this.#urls = new Set(options.urls);
    const blockMb = options.version.blockBytes / 1e6;
    this.#blockCost = new MeasuredCost(BLOCK_MS + BLOCK_MS_PER_MB * blockMb);
  }

  get statistics(): PeerStatistics {
    return {
      loadedBlocks: this.#loadedBlocks,
      loadedBytes: this.#loadedBlocks * this.#options.version.blockBytes,
      fetches: this.#fetches,
      failedFetches: this.#failedFetches,
    };
  }

  mayAsk(url: string): boolean {
    if (!this.#urls.has(url) || this.#open.size >= FETCHES_MAX) return false;
    return this.#options.nowMs() >= (this.#restsUntilMs.get(url) ?? 0);
  }

  /** How long so many blocks take to come, as measured. */
  predictMs(blocks: number): number {
    return blocks === 0 ? 0 : FIXED_MS + blocks * this.#blockCost.at(this.#options.nowMs());
  }

  /**
   * Asks a peer, which may be asked, for these blocks. `keep` hears of each that came, in order, `end` of the
   * end, once. Returns what gives the fetch up.
   */
  fetch(
    url: string,
    wanted: readonly string[],
    { keep, end }: Pick<OpenFetch, "keep" | "end">,
  ): () => void {
    assert(this.mayAsk(url), "A peer is asked that may be");
    const { version, nowMs, post } = this.#options;
    const hashes = wanted.slice(0, KV_BLOCKS_MAX);
    this.#fetches += 1;
    const fetch = this.#fetches;
    this.#open.set(fetch, { url, hashes, startedAtMs: nowMs(), keep, end, loadedBlocks: 0 });
    post({ kind: "fetch", fetch, url, version, hashes });
    return () => {
      if (!this.#open.has(fetch)) return;
      post({ kind: "give-up", fetch });
      this.#end(fetch, { kind: "failed", message: "it did not answer in time" });
    };
  }

  /** Hears what came; of a fetch that was given up nothing is looked at. */
  hear(message: Extract<ToEngine, { kind: "blocks" | "fetched" }>): void {
    if (message.kind === "fetched") this.#end(message.fetch, message.outcome);
    else this.#keep(message);
  }

  /** Throws unless it keeps to its bound. */
  checkInvariants(): void {
    assert(this.#open.size <= FETCHES_MAX, "Fetches are bounded");
    assert(this.#restsUntilMs.size <= this.#urls.size, "Only of peers it is known how they are");
  }

  #keep({ fetch, from, bytes }: Extract<ToEngine, { kind: "blocks" }>): void {
    const open = this.#open.get(fetch);
    if (open === undefined) return;
    assert(from === open.loadedBlocks, "Blocks come in order");
    const { blockBytes } = this.#options.version;
    const count = bytes.byteLength / blockBytes;
    for (const [index, hash] of open.hashes.slice(from, from + count).entries()) {
      open.keep(hash, bytes.subarray(index * blockBytes, (index + 1) * blockBytes));
    }
    open.loadedBlocks += count;
    this.#loadedBlocks += count;
  }

  #end(fetch: number, outcome: FetchOutcome): void {
    const open = this.#open.get(fetch);
    if (open === undefined) return;
    this.#open.delete(fetch);
    const nowMs = this.#options.nowMs();
    if (outcome.kind !== "done") this.#rest(open.url, outcome, nowMs);
    if (open.loadedBlocks > 0) {
      const spentMs = Math.max(0, nowMs - open.startedAtMs - FIXED_MS);
      this.#blockCost.record(spentMs / open.loadedBlocks, nowMs);
    }
    open.end();
  }

  #rest(url: string, outcome: Exclude<FetchOutcome, { kind: "done" }>, nowMs: number): void {
    this.#failedFetches += 1;
    const wasResting = nowMs < (this.#restsUntilMs.get(url) ?? 0);
    const restMs = outcome.kind === "refused" ? REFUSED_REST_MS : FAILED_REST_MS;
    this.#restsUntilMs.set(url, nowMs + restMs);
    if (!wasResting) this.#options.onFault(`No KV from ${url} for now: ${outcome.message}`);
  }
}
