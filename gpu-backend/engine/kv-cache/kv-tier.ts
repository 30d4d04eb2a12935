import type { StepForecast } from "../../../src/step-cost/step-model.ts";
import { NO_WORK, workOfGuesses } from "../../../src/step-cost/step-model.ts";
import type { BlockChain } from "./block-chain.ts";
import type { PrefixCache } from "./prefix-cache.ts";

/** Where KV of a hash can be had beside the pool: now, after a wait, or not at all. */
export type TierPlace = "near" | "far" | undefined;

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
  /** Has far KV brought near. Sooner or later `Engine.kvArrived` is called for `id`, whatever came of it. */
  fetch(id: string, hashes: readonly string[]): void;
  /** How long it takes to load so many blocks, as measured; far ones are those that have to be fetched. */
  predictMs(blocks: { readonly near: number; readonly far: number }): number;
  /** Forgets everything. */
  clear(): void;
}

/** A stretch of a sequence that a tier has. */
export interface TierRun {
  readonly startBlock: number;
  readonly blocks: { readonly near: number; readonly far: number };
}

/** Which blocks are worth loading: those that it takes less time to load than to compute. */
export class TierChoice {
  readonly tier: KvTier;
  readonly #forecast: StepForecast | undefined;
  readonly #blockTokens: number;

  /** Without a forecast whatever is there is loaded. */
  constructor(tier: KvTier, forecast: StepForecast | undefined, blockTokens: number) {
    this.tier = tier;
    this.#forecast = forecast;
    this.#blockTokens = blockTokens;
  }

  /** Whether to load the run; what it would take to compute is by itself, beside what a step does anyway. */
  pays({ startBlock, blocks }: TierRun): boolean {
    if (this.#forecast === undefined) return true;
    const tokens = (blocks.near + blocks.far) * this.#blockTokens;
    const work = workOfGuesses(startBlock * this.#blockTokens, tokens);
    const computeMs = this.#forecast.predictMs(work) - this.#forecast.predictMs(NO_WORK);
    return this.tier.predictMs(blocks) < computeMs;
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
    const { hashes } = this.#follow(chain, range, (place) => place === "near");
    const blocks = { near: hashes.length, far: 0 };
    return this.#isWorth(range, blocks) ? hashes : [];
  }

  /** The far ones among the blocks that follow, near or far, if it is worth waiting for them. */
  farHashes(chain: BlockChain, range: TierRange): readonly string[] {
    const { hashes, farHashes } = this.#follow(chain, range, (place) => place !== undefined);
    const { length: far } = farHashes;
    const blocks = { near: hashes.length - far, far };
    return this.#isWorth(range, blocks) ? farHashes : [];
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

  #follow(
    chain: BlockChain,
    { startBlock, blocksMax }: TierRange,
    isThere: (place: TierPlace) => boolean,
  ): { readonly hashes: string[]; readonly farHashes: string[] } {
    const hashes: string[] = [];
    const farHashes: string[] = [];
    if (this.#choice === undefined) return { hashes, farHashes };
    for (let block = startBlock; block < blocksMax; block += 1) {
      const hash = chain.hashAt(block);
      const place = this.#choice.tier.placeOf(hash);
      if (!isThere(place)) break;
      hashes.push(hash);
      if (place === "far") farHashes.push(hash);
    }
    return { hashes, farHashes };
  }

  #isWorth({ startBlock }: TierRange, blocks: TierRun["blocks"]): boolean {
    return blocks.near + blocks.far > 0 && this.#choice?.pays({ startBlock, blocks }) === true;
  }
}
