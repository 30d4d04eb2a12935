import type { KvCache } from "./kv-cache/kv-cache.ts";
import { type KvGrowth, peakBlocks } from "./kv-peak.ts";
import { OutputLengths } from "./output-lengths.ts";
import type { Sequence } from "./sequence.ts";

/**
 * Admits whom the KV pool will hold to the end, by how long past outputs became (the past-future
 * scheduler of LightLLM), so that nobody has to be preempted.
 *
 * Every sequence is foreseen to grow by one token a step, all in step with each other. A prefill of
 * several steps, or an output longer than was expected, can still cause a preemption.
 */
export class PastFuture {
  readonly #kvCache: KvCache;
  readonly #outputLengths = new OutputLengths();

  constructor(kvCache: KvCache) {
    this.#kvCache = kvCache;
  }

  /** Learns from an output that came to its own end. */
  record({ request, outputTokens }: Sequence): void {
    if (outputTokens > 0) this.#outputLengths.record(request.tenant, outputTokens);
  }

  /** Whether the pool holds all that run and this one, until each has the output expected of it. */
  fits(sequence: Sequence, running: readonly Sequence[]): boolean {
    const { chain, knownTokens, readsPrefixCache } = sequence;
    const growths = running.map((other) =>
      this.#growthOf(other, this.#kvCache.heldBlocks(other.id)),
    );
    const hits = readsPrefixCache ? this.#kvCache.hitBlocks(chain, knownTokens) : [];
    growths.push(this.#growthOf(sequence, hits));
    return peakBlocks(growths, this.#kvCache.blockTokens) <= this.#kvCache.blockCount;
  }

  #growthOf(sequence: Sequence, blocks: readonly number[]): KvGrowth {
    const { request, knownTokens, outputTokens, outputTokensMax } = sequence;
    const { tenant } = request;
    const expectedTokens = this.#outputLengths.expectedTokens({
      tenant,
      outputTokens,
      outputTokensMax,
    });
    return { blocks, knownTokens, leftTokens: expectedTokens - outputTokens };
  }
}
