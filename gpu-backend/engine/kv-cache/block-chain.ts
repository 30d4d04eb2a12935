import { assert } from "../../../src/base/assert.ts";
import type { PromptChain } from "../../../src/protocol/prompt-chain.ts";
import { chainKeyAt, chainLength } from "../../../src/protocol/prompt-chain.ts";

/**
 * Hashes the tokens of one full block onto its parent's hash; `adapter` names what the weights were
 * adapted with, and is absent for the model as it is. It must resist collisions, since equal hashes
 * share KV across requests, and must encode its arguments so that they cannot be confused.
 */
export type HashBlock = (
  parent: string,
  tokens: readonly number[] | Int32Array,
  adapter?: string,
) => string;

/** What block hashes of one model are made with. */
export interface BlockHashing {
  readonly hashBlock: HashBlock;
  readonly blockTokens: number;
  /** Names all that changes KV besides the tokens: weights, precision, positions. */
  readonly modelRevision: string;
}

/**
 * The parent of block 0. Both parts carry their length, so that no choice of a salt can reach
 * the namespace of another one or of another model.
 */
export function namespaceRoot(modelRevision: string, namespace: string): string {
  return `${modelRevision.length}:${modelRevision}${namespace.length}:${namespace}`;
}

/** The namespace that a salt names for one tenant: what a tenant has cached is hit by that tenant alone. */
export function tenantNamespace(tenant: string, cacheSalt: string): string {
  return `${tenant.length}:${tenant}${cacheSalt}`;
}

/** What some sequences have and most have not. */
export interface ChainExtras {
  readonly adapter?: string | undefined;
  /** The gateway's names of what the prompt begins with, and how many tokens the prompt has. */
  readonly names?: { readonly chain: PromptChain; readonly promptTokens: number } | undefined;
}

const NO_NAMES: ReadonlyMap<number, readonly string[]> = new Map();

/**
 * The hashes of one sequence's full blocks, computed when first asked for and kept. Each covers
 * all tokens before it, so that equal hashes mean equal prefixes.
 */
export class BlockChain {
  readonly #hashing: BlockHashing;
  readonly #root: string;
  readonly #tokens: readonly number[];
  readonly #adapter: string | undefined;
  readonly #namesByBlock: ReadonlyMap<number, readonly string[]>;
  readonly #hashes: string[] = [];

  /**
   * `tokens` is the sequence's own list and may grow; what is in it never changes. The adapter is in
   * the key of every block, so that no block's hash means KV of other weights, whatever its parent.
   */
  constructor(
    hashing: BlockHashing,
    namespace: string,
    tokens: readonly number[],
    { adapter, names }: ChainExtras = {},
  ) {
    this.#hashing = hashing;
    this.#root = namespaceRoot(hashing.modelRevision, namespace);
    this.#tokens = tokens;
    this.#adapter = adapter;
    this.#namesByBlock = names === undefined ? NO_NAMES : namesByBlock(names, hashing.blockTokens);
  }

  /** The gateway's names of beginnings that end in the block with this index. */
  namesAt(blockIndex: number): readonly string[] {
    return this.#namesByBlock.get(blockIndex) ?? [];
  }

  get fullBlocks(): number {
    return Math.floor(this.#tokens.length / this.#hashing.blockTokens);
  }

  /** The hash of the block with this index, which must be full. */
  hashAt(blockIndex: number): string {
    const { blockTokens, hashBlock } = this.#hashing;
    assert((blockIndex + 1) * blockTokens <= this.#tokens.length, "Only full blocks have a hash");
    while (this.#hashes.length <= blockIndex) {
      const start = this.#hashes.length * blockTokens;
      const parent = this.#hashes.at(-1) ?? this.#root;
      const tokens = this.#tokens.slice(start, start + blockTokens);
      this.#hashes.push(hashBlock(parent, tokens, this.#adapter));
    }
    const hash = this.#hashes[blockIndex];
    assert(hash !== undefined, "A block index is not negative");
    return hash;
  }
}

/**
 * Finds the block in which each beginning ends. Names count bytes and blocks count tokens: a text is taken
 * to have as many bytes a token everywhere, so a name may stand a block too early or too late.
 */
function namesByBlock(
  { chain, promptTokens }: { readonly chain: PromptChain; readonly promptTokens: number },
  blockTokens: number,
): ReadonlyMap<number, readonly string[]> {
  const byBlock = new Map<number, string[]>();
  for (let index = 0; index < chainLength(chain); index += 1) {
    const endTokens = Math.min(1, (index + 1) * chain.blockRatio) * promptTokens;
    const block = Math.max(0, Math.ceil(endTokens / blockTokens) - 1);
    const names = byBlock.get(block) ?? [];
    byBlock.set(block, names);
    names.push(chainKeyAt(chain, index));
  }
  return byBlock;
}
