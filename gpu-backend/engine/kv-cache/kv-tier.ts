import type { StepForecast } from "../../../src/step-cost/step-model.ts";
import { NO_WORK, workOfGuesses } from "../../../src/step-cost/step-model.ts";
import type { EngineOptions } from "../engine-options.ts";
import type { GenerateRequest } from "../generate-request.ts";
import type { BlockChain } from "./block-chain.ts";
import type { PrefixCache } from "./prefix-cache.ts";

/** Where KV of a hash can be had beside the pool: now, after a wait, or not at all. */
export type TierPlace = "near" | "far" | undefined;

/** Another engine of the same model, from which KV may be had. */
export interface KvPeer {
  /** As it was named when this engine was started. */
  readonly url: string;
}

/** Blocks by where they are: at a peer they are only believed to be. */
export interface TierBlocks {
  readonly near: number;
  readonly far: number;
  readonly peer?: number;
}

/** What a sequence may wait for. */
export interface FarRun {
  /** The far ones and the peer's, in the order of the chain. */
  readonly hashes: readonly string[];
  /** Absent: all of it is below this engine's own pool. */
  readonly peer: KvPeer | undefined;
  /** What it takes to load, and to compute, as predicted; without a forecast nobody knows the latter. */
  readonly loadMs: number;
  readonly computeMs: number | undefined;
  /** What it costs to compute, all told: so long a load may take. */
  readonly worthMs?: number | undefined;
}

/** What a peer has to be told, and how long its answer is of use. */
export interface PeerAsk {
  readonly peer: KvPeer;
  readonly request: GenerateRequest;
  readonly waitMsMax: number;
}

/** A block of the pool whose KV can be hit by this hash. */
export interface NamedBlock {
  readonly hash: string;
  readonly block: number;
}

/**
 * Memory below the KV pool, in which blocks are found by the hash of their chain: so the salt, the tenant,
 * the model and the precision are in every name. All of it is an offer: what is not there any more, or is
 * not sound, is computed.
 */
export interface KvTier {
  placeOf(hash: string): TierPlace;
  /** The pool is about to overwrite the block that holds this KV. */
  evicted(hash: string, block: number): void;
  /** One of those who hold these has ended, and they may be evicted. The beginning of a chain comes first. */
  released(blocks: readonly NamedBlock[]): void;
  /** Takes near KV out of the tier. What is returned fills a block with it; `undefined`: it is not there. */
  take(hash: string): ((block: number) => void) | undefined;
  /** Whether a peer may be asked now: it is one of those that were given, and has not failed of late. */
  mayAsk(peer: KvPeer): boolean;
  /**
   * Has far KV brought near, and of a peer's what it has. Sooner or later `Engine.kvArrived` is called for
   * `id`, whatever came of it.
   */
  fetch(id: string, hashes: readonly string[], ask?: PeerAsk): void;
  /** How long it takes to load so many blocks, as measured; all but near ones have to be fetched. */
  predictMs(blocks: TierBlocks): number;
  /** Forgets everything. */
  clear(): void;
}

/** A stretch of a sequence that a tier has. */
export interface TierRun {
  readonly startBlock: number;
  readonly blocks: TierBlocks;
}

/** Which blocks are worth loading: those that it takes less time to load than to compute. */
export class TierChoice {
  readonly tier: KvTier;
  readonly #forecast: StepForecast | undefined;
  readonly #blockTokens: number;
  readonly #prefillCostRatio: number;

  /** Without a forecast whatever is there is loaded. */
  constructor(
    tier: KvTier,
    options: Pick<EngineOptions, "forecast" | "blockTokens" | "prefillCostRatio">,
  ) {
    const { forecast, blockTokens, prefillCostRatio = 1 } = options;
    this.tier = tier;
    this.#forecast = forecast;
    this.#blockTokens = blockTokens;
    this.#prefillCostRatio = prefillCostRatio;
  }

  /** What it would take to compute the run by itself, beside what a step does anyway; unknown without a forecast. */
  computeMs({ startBlock, blocks }: TierRun): number | undefined {
    if (this.#forecast === undefined) return undefined;
    const work = workOfGuesses(startBlock * this.#blockTokens, countOf(blocks) * this.#blockTokens);
    return this.#forecast.predictMs(work) - this.#forecast.predictMs(NO_WORK);
  }

  /** Whether to load the run in a step. */
  pays(run: TierRun): boolean {
    return this.tier.predictMs(run.blocks) < (this.computeMs(run) ?? Infinity);
  }

  /** What is to be fetched, between steps, if that is worth waiting for. */
  worthFetching(run: TierRun): Omit<FarRun, "hashes" | "peer"> | undefined {
    const loadMs = this.tier.predictMs(run.blocks);
    const computeMs = this.computeMs(run);
    const worthMs = computeMs && computeMs * this.#prefillCostRatio;
    return loadMs < (worthMs ?? Infinity) ? { loadMs, computeMs, worthMs } : undefined;
  }
}

/** Where to look in a sequence: behind the blocks that are hit, and before the one that is computed anyway. */
export interface TierRange {
  readonly startBlock: number;
  readonly blocksMax: number;
}

/** What a pool looks up, loads and leaves below it: nothing where there is no tier. */
export class TierLookup {
  readonly #choice: TierChoice | undefined;
  readonly #prefixes: PrefixCache;

  constructor(choice: TierChoice | undefined, prefixes: PrefixCache) {
    this.#choice = choice;
    this.#prefixes = prefixes;
  }

  /** The near blocks that follow in the chain, if they are worth loading. */
  nearHashes(chain: BlockChain, range: TierRange): readonly string[] {
    const { near } = this.#follow(chain, range, (place) => place === "near");
    return this.#isWorth(range, { near: near.length, far: 0 }) ? near : [];
  }

  /**
   * What is to be fetched of the blocks that follow, near or far or at a peer, if it is worth waiting for;
   * `undefined` if nothing is.
   */
  farFetch(chain: BlockChain, range: TierRange, peer?: KvPeer): FarRun | undefined {
    const isAsked = peer !== undefined && this.#choice?.tier.mayAsk(peer) === true;
    const withPeer = isAsked ? this.#farRun(chain, range, peer) : undefined;
    return withPeer ?? this.#farRun(chain, range, undefined);
  }

  /** What fills a block with near KV, if it is there. */
  take(hash: string): ((block: number) => void) | undefined {
    return this.#choice?.tier.take(hash);
  }

  /** The block is about to be overwritten. */
  evicted(block: number): void {
    const hash = this.#prefixes.onlyHashOf(block);
    if (hash !== undefined) this.#choice?.tier.evicted(hash, block);
  }

  /** One of those who hold these, the first blocks of a chain, has ended. */
  released(blocks: readonly number[]): void {
    if (this.#choice === undefined) return;
    const named = blocks.flatMap((block) => {
      const hash = this.#prefixes.onlyHashOf(block);
      return hash === undefined ? [] : [{ hash, block }];
    });
    if (named.length > 0) this.#choice.tier.released(named);
  }

  clear(): void {
    this.#choice?.tier.clear();
  }

  #farRun(chain: BlockChain, range: TierRange, peer: KvPeer | undefined): FarRun | undefined {
    const isThere = (place: TierPlace) => peer !== undefined || place !== undefined;
    const { near, far, elsewhere } = this.#follow(chain, range, isThere);
    const hashes = [...far, ...elsewhere];
    const blocks = { near: near.length, far: far.length, peer: elsewhere.length };
    if (hashes.length === 0 || (peer !== undefined && elsewhere.length === 0)) return undefined;
    const worth = this.#choice?.worthFetching({ startBlock: range.startBlock, blocks });
    return worth && { hashes, peer, ...worth };
  }

  #follow(
    chain: BlockChain,
    { startBlock, blocksMax }: TierRange,
    isThere: (place: TierPlace) => boolean,
  ): { readonly near: string[]; readonly far: string[]; readonly elsewhere: string[] } {
    const run: Record<"near" | "far" | "elsewhere", string[]> = {
      near: [],
      far: [],
      elsewhere: [],
    };
    if (this.#choice === undefined) return run;
    for (let block = startBlock; block < blocksMax; block += 1) {
      const hash = chain.hashAt(block);
      const place = this.#choice.tier.placeOf(hash);
      if (!isThere(place)) break;
      run[place ?? "elsewhere"].push(hash);
    }
    return run;
  }

  #isWorth({ startBlock }: TierRange, blocks: TierBlocks): boolean {
    return countOf(blocks) > 0 && this.#choice?.pays({ startBlock, blocks }) === true;
  }
}

function countOf({ near, far, peer = 0 }: TierBlocks): number {
  return near + far + peer;
}
