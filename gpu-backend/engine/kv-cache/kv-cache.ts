import { assert } from "../../../src/base/assert.ts";
import type { BlockChain } from "./block-chain.ts";
import { type Holding, Holdings } from "./holdings.ts";
import { type KvEvent, KvEventLog } from "./kv-event-log.ts";
import type { KvAdmission, KvCacheOptions, KvProspect } from "./kv-admission.ts";
import { KvLeases } from "./kv-leases.ts";
import { KvShares } from "./kv-shares.ts";
import { type FarRun, type KvPeer, TierLookup, type TierRange } from "./kv-tier.ts";
import { PrefixCache } from "./prefix-cache.ts";
import { type PrefixChanges, PrefixNames } from "./prefix-names.ts";
import { countAdmission, NO_PREFIX_STATISTICS } from "./prefix-statistics.ts";
import type { PrefixStatistics } from "./prefix-statistics.ts";

/** A log this much longer than what it describes is shortened, which costs as much as it has. */
const EVENTS_PER_BLOCK_MAX = 2;
const NO_SHARES = { shareCount: 1, isolation: "borrow" } as const;

/**
 * Gives sequences their blocks: hits first, then the least recently used free ones.
 *
 * An admission takes the blocks of all known tokens at once, so that a prefill, once begun, never
 * waits for memory; only the growth by output tokens can find the pool empty. What fails
 * changes nothing.
 */
export class KvCache {
  readonly blockTokens: number;
  /** What other engines are copying. It gives way to whoever needs blocks here. */
  readonly leases: KvLeases;
  readonly #shares: KvShares;
  readonly #log: KvEventLog | undefined;
  readonly #prefixes: PrefixCache;
  readonly #names = new PrefixNames();
  readonly #isCaching: boolean;
  readonly #tier: TierLookup;
  readonly #holdings = new Holdings();
  #statistics = NO_PREFIX_STATISTICS;

  constructor(options: KvCacheOptions) {
    const { blockTokens } = options;
    assert(Number.isInteger(blockTokens) && blockTokens > 0, "A block holds at least one token");
    this.blockTokens = blockTokens;
    this.#shares = new KvShares(options.blockCount, options.shares ?? NO_SHARES);
    this.#isCaching = options.prefixCache;
    if (options.logsEvents === true) {
      this.#log = new KvEventLog(EVENTS_PER_BLOCK_MAX * options.blockCount);
    }
    this.#prefixes = new PrefixCache({
      add: (event, storedHashes) => {
        this.#log?.add(event, storedHashes);
        if (event.kind === "removed") this.#names.remove(event.hash);
        if (event.kind === "all-cleared") this.#names.clear();
      },
    });
    this.leases = new KvLeases(this.#shares, this.#prefixes);
    this.#tier = new TierLookup(options.tier, this.#prefixes);
  }

  get blockCount(): number {
    return this.#shares.blockCount;
  }

  /** The most blocks that one sequence may count on. */
  get sequenceBlocksMax(): number {
    return this.#shares.shareBlocks;
  }

  /** Blocks that sequences or leases hold; cached but free blocks are not counted. */
  get usedBlocks(): number {
    return this.#shares.usedBlocks;
  }

  get statistics(): PrefixStatistics {
    return this.#statistics;
  }

  /** Leading tokens that an admission would find now, in the pool or near. Changes and counts nothing. */
  hitTokens(chain: BlockChain, knownTokens: number): number {
    const hits = this.hitBlocks(chain, knownTokens).length;
    const near = this.#tier.nearHashes(chain, this.#behind(hits, knownTokens));
    return (hits + near.length) * this.blockTokens;
  }

  /** What a sequence would hit if it were fetched; `undefined` where that takes longer than computing. */
  farFetch(chain: BlockChain, knownTokens: number, peer?: KvPeer): FarRun | undefined {
    const { length: hits } = this.hitBlocks(chain, knownTokens);
    return this.#tier.farFetch(chain, this.#behind(hits, knownTokens), peer);
  }

  /** The blocks that an admission would find now, in order. Changes and counts nothing. */
  hitBlocks(chain: BlockChain, knownTokens: number): number[] {
    if (!this.#isCaching) return [];
    return this.#prefixes.findPrefix(chain, this.#hitBlocksMax(knownTokens));
  }

  /**
   * How many tokens a holder is about to compute that stand behind the `hitTokens` which a sequence
   * with this chain would find, and that it needs as well. Whole blocks, as a hit would be.
   */
  upcomingTokens(id: string, sequence: KvProspect): number {
    const { chain, confirmedBlocks } = this.#holdings.of(id);
    const hitBlocks = sequence.hitTokens / this.blockTokens;
    // Were they the same from here on, what the holder has confirmed would have been hit.
    if (!this.#isCaching || confirmedBlocks > hitBlocks) return 0;
    const endBlock = Math.min(chain.fullBlocks, this.#hitBlocksMax(sequence.knownTokens));
    let block = hitBlocks;
    while (block < endBlock && chain.hashAt(block) === sequence.chain.hashAt(block)) block += 1;
    return (block - hitBlocks) * this.blockTokens;
  }

  /** The blocks that a sequence holds, in order. */
  heldBlocks(id: string): readonly number[] {
    return this.#holdings.of(id).blocks;
  }

  /**
   * Takes the blocks of all known tokens. Returns how many leading tokens are computed already: whole
   * blocks, and never the last token, whose logits are wanted. `undefined`: it does not fit now.
   */
  admit(admission: KvAdmission): number | undefined {
    const { id, tenant, chain, knownTokens, readsCache, reservedBlocks } = admission;
    this.leases.makeRoom(() => this.#shares.findShare(tenant) !== undefined);
    const share = this.#shares.findShare(tenant);
    if (share === undefined) return undefined;
    const hits = readsCache ? this.hitBlocks(chain, knownTokens) : [];
    const newBlocks = this.#blocksFor(knownTokens) - hits.length;
    const fits = () => {
      // A hit that nobody holds is itself one of the free blocks: it cannot be taken as well.
      const freeHits = hits.filter((block) => this.#shares.isFree(block)).length;
      return newBlocks + reservedBlocks <= this.#shares.availableBlocks(share) - freeHits;
    };
    if (!this.leases.makeRoom(fits)) return undefined;
    for (const block of this.#shares.assignShare(tenant, share)) this.#prefixes.forget(block);
    for (const [index, block] of hits.entries()) {
      this.#shares.retain(block);
      // Whoever hits a block may have names for it that those who computed it had not.
      this.#names.add(chain.hashAt(index), chain.namesAt(index));
    }
    const hitCount = hits.length;
    const holding: Holding = { share, chain, blocks: hits, confirmedBlocks: hitCount };
    this.#holdings.add(id, holding);
    if (readsCache) this.#load(holding, knownTokens);
    this.#takeBlocks(holding, hitCount + newBlocks - holding.blocks.length);
    const hitTokens = holding.confirmedBlocks * this.blockTokens;
    if (this.#isCaching && readsCache) {
      const { isResumed } = admission;
      const loadedTokens = hitTokens - hitCount * this.blockTokens;
      const counted = { queriedTokens: knownTokens, hitTokens, loadedTokens, isResumed };
      this.#statistics = countAdmission(this.#statistics, counted);
    }
    return hitTokens;
  }

  /** Makes room for `tokens` in all. Returns false, and takes nothing, if too little is free. */
  extend(id: string, tokens: number): boolean {
    const holding = this.#holdings.of(id);
    const newBlocks = this.#blocksFor(tokens) - holding.blocks.length;
    const fits = () => newBlocks <= this.#shares.availableBlocks(holding.share);
    if (!this.leases.makeRoom(fits)) return false;
    this.#takeBlocks(holding, newBlocks);
    return true;
  }

  /** Gives back the blocks behind those of `tokens`: what they were taken for was not computed for good. */
  trim(id: string, tokens: number): void {
    const holding = this.#holdings.of(id);
    const keptBlocks = this.#blocksFor(tokens);
    assert(keptBlocks >= holding.confirmedBlocks, `Sequence ${id} keeps what is confirmed`);
    for (const block of holding.blocks.splice(keptBlocks).toReversed()) {
      this.#shares.release(block, false);
    }
  }

  /**
   * Whether so many more tokens would not fit into the tenant's own share, however much of the pool is
   * free: then nobody else has to wait behind them. False where the pool is everybody's.
   */
  exceedsShare(tenant: string, tokens: number): boolean {
    return this.#shares.wouldExceed(tenant, this.#blocksFor(tokens));
  }

  /** Whether blocks that one holder gives back can become another's: it is of one share with it, or borrows. */
  canRelieve(id: string, other: string): boolean {
    const { share } = this.#holdings.of(id);
    return share === this.#holdings.of(other).share || this.#shares.isOverdrawn(share);
  }

  /** Registers the blocks that became full, now that this many tokens are computed for good. */
  confirm(id: string, computedTokens: number): void {
    if (!this.#isCaching) return;
    const holding = this.#holdings.of(id);
    const fullBlocks = Math.floor(computedTokens / this.blockTokens);
    while (holding.confirmedBlocks < fullBlocks) this.#registerNext(holding);
  }

  /** The physical blocks of the first `tokens` tokens, in order. */
  blockTable(id: string, tokens: number): Int32Array {
    const { blocks } = this.#holdings.of(id);
    const count = this.#blocksFor(tokens);
    assert(count <= blocks.length, `Sequence ${id} lacks blocks for ${tokens} tokens`);
    return Int32Array.from(blocks.slice(0, count));
  }

  /** Gives all blocks back, the last one first: a sequence's tail is evicted before its head. */
  release(id: string): void {
    const { blocks } = this.#holdings.remove(id);
    this.#tier.released(blocks);
    for (const block of blocks.toReversed()) this.#shares.release(block, this.#prefixes.has(block));
  }

  /** Like `release`, but nobody may hit these blocks again: their content is not trusted. */
  discard(id: string): void {
    const { blocks } = this.#holdings.of(id);
    this.leases.revoke(blocks);
    for (const block of blocks) this.#prefixes.forget(block);
    this.release(id);
  }

  /** Forgets every cached prefix. Refuses, and returns false, while any block is held. */
  reset(): boolean {
    if ([...this.#holdings.ids()].length > 0) return false;
    this.leases.makeRoom(() => false);
    this.#prefixes.clear();
    this.#shares.clear();
    this.#tier.clear();
    return true;
  }

  /** The oldest changes of what can be hit that nobody took yet, at most so many. */
  takeEvents(eventsMax: number): KvEvent[] {
    return this.#log?.take(eventsMax) ?? [];
  }

  /** What has changed of the gateway's names for what can be hit, since that was taken last. */
  takePrefixChanges(): PrefixChanges | undefined {
    return this.#names.takeChanges();
  }

  /** The ids of the sequences that hold blocks. */
  holders(): Iterable<string> {
    return this.#holdings.ids();
  }

  /** The free blocks, of each share the next one to be evicted first. */
  evictionOrder(): number[] {
    return this.#shares.evictionOrder();
  }

  /** Throws unless the reference counts are exactly the block tables that hold each block. */
  checkInvariants(): void {
    this.#shares.checkInvariants();
    this.#prefixes.checkInvariants();
    this.#names.checkInvariants((hash) => this.#prefixes.find(hash) !== undefined);
    this.leases.checkInvariants();
    this.#holdings.checkInvariants(this.#shares, this.leases.heldBlocks());
    assert(this.#isCaching || this.#prefixes.blockCount === 0, "Without caching nothing is cached");
  }

  readonly #blocksFor = (tokens: number): number => Math.ceil(tokens / this.blockTokens);

  /** The last token is never hit: its logits are wanted. */
  #hitBlocksMax(knownTokens: number): number {
    return Math.floor((knownTokens - 1) / this.blockTokens);
  }

  /** Where below the pool there may be something for a sequence: nowhere without caching. */
  #behind(hitBlocks: number, knownTokens: number): TierRange {
    const blocksMax = this.#isCaching ? this.#hitBlocksMax(knownTokens) : 0;
    return { startBlock: hitBlocks, blocksMax };
  }

  /** Takes blocks for what is near one by one, so that what each evicts finds room for itself below. */
  #load(holding: Holding, knownTokens: number): void {
    const range = this.#behind(holding.blocks.length, knownTokens);
    for (const hash of this.#tier.nearHashes(holding.chain, range)) {
      const fill = this.#tier.take(hash);
      if (fill === undefined) return;
      this.#takeBlocks(holding, 1);
      fill(this.#registerNext(holding));
    }
  }

  /** Lets the next block of a holder be hit, and returns it. */
  #registerNext(holding: Holding): number {
    const block = holding.blocks[holding.confirmedBlocks];
    assert(block !== undefined, "Only blocks that are held are registered");
    const hash = holding.chain.hashAt(holding.confirmedBlocks);
    this.#prefixes.register(hash, block);
    this.#names.add(hash, holding.chain.namesAt(holding.confirmedBlocks++));
    return block;
  }

  #takeBlocks(holding: Holding, count: number): void {
    for (let taken = 0; taken < count; taken++) {
      const block = this.#shares.take(holding.share);
      this.#tier.evicted(block);
      this.#prefixes.forget(block);
      holding.blocks.push(block);
    }
  }
}
