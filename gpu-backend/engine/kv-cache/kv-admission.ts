import type { BlockChain } from "./block-chain.ts";
import type { KvSharesOptions } from "./kv-shares.ts";
import type { TierChoice } from "./kv-tier.ts";

/** What a cache is, and what it keeps. */
export interface KvCacheOptions {
  readonly blockCount: number;
  readonly blockTokens: number;
  /** Without it nothing is hashed, registered, hit or counted. */
  readonly prefixCache: boolean;
  /** None unless given: the pool is everybody's. */
  readonly shares?: KvSharesOptions;
  /** Keeps what changes in the prefix cache until `takeEvents`. Nothing is kept unless given. */
  readonly logsEvents?: boolean;
  /** What is below the pool, and what of it is worth loading. */
  readonly tier?: TierChoice | undefined;
}

/** One sequence that asks for the blocks of all its known tokens. */
export interface KvAdmission {
  readonly id: string;
  /** Whose share the blocks count against. Its chain is in a namespace that is the tenant's alone. */
  readonly tenant: string;
  readonly chain: BlockChain;
  readonly knownTokens: number;
  /** False: nothing is hit or counted, though what is computed is offered to others. */
  readonly readsCache: boolean;
  /** Blocks that must stay free, so that those who run can grow. */
  readonly reservedBlocks: number;
  /** True when the sequence was admitted before and preempted: its hits are its own. */
  readonly isResumed: boolean;
}

/** One sequence that waits, and what it would find if it were admitted now. */
export interface KvProspect {
  readonly chain: BlockChain;
  readonly knownTokens: number;
  readonly hitTokens: number;
}
