import type { PromptChain } from "../protocol/prompt-chain.ts";
import { chainKeyAt, chainLength } from "../protocol/prompt-chain.ts";

/** The names of a chain one by one, each cut out when it is first asked for: many replicas are asked for the same. */
export class ChainNames {
  readonly chain: PromptChain;
  readonly length: number;
  readonly #names: (string | undefined)[] = [];

  constructor(chain: PromptChain) {
    this.chain = chain;
    this.length = chainLength(chain);
  }

  at(index: number): string {
    return (this.#names[index] ??= chainKeyAt(this.chain, index));
  }
}

/** Keeps the names of the chain that was asked for last, as one request is held against all replicas in a row. */
export class LatestNames {
  #latest: ChainNames | undefined;

  of(chain: PromptChain | undefined): ChainNames | undefined {
    if (chain === undefined) return undefined;
    if (this.#latest?.chain !== chain) this.#latest = new ChainNames(chain);
    return this.#latest;
  }
}
