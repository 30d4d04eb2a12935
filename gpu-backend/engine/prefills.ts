import { NO_PREFILLS, type PrefillStatistics } from "./engine-counters.ts";
import type { FinishReason, GenerateEvent, GenerateRequest } from "./generate-request.ts";
import type { KvCache } from "./kv-cache/kv-cache.ts";
import { KV_HOLD_MS } from "./kv-cache/kv-leases.ts";
import type { Sequence } from "./sequence.ts";

/** Requests that compute a prompt for another engine: when they are complete, and what is held of them then. */
export class Prefills {
  readonly #kvCache: KvCache;
  readonly #isCaching: boolean;
  /** When the newest step was planned; a hold begins about then. */
  nowMs = 0;
  #statistics = NO_PREFILLS;

  constructor(kvCache: KvCache, isCaching: boolean) {
    this.#kvCache = kvCache;
    this.#isCaching = isCaching;
  }

  get statistics(): PrefillStatistics {
    return this.#statistics;
  }

  /** Whether it is a prefill that has nothing to compute: all is cached, or is of no use to anybody. */
  hasNothingToDo({ isPrefillOnly, chain, knownTokens }: Sequence): boolean {
    if (!isPrefillOnly) return false;
    if (!this.#isCaching) return true;
    return this.#kvCache.hitBlocks(chain, knownTokens + 1).length === chain.fullBlocks;
  }

  /** The prompt tokens of a request that is for somebody here. */
  ownTokens({ isPrefillOnly, promptTokens }: Sequence): number {
    return isPrefillOnly ? 0 : promptTokens;
  }

  /**
   * Says how a request ended. Of a complete prefill what it has computed is held from now on; it must not have
   * let go of it before.
   */
  finish(sequence: Sequence, reason: FinishReason): GenerateEvent {
    const { id, isPrefillOnly, promptTokens, cachedTokens, outputTokens } = sequence;
    const finished = { kind: "finished", id, reason, promptTokens, outputTokens } as const;
    if (!isPrefillOnly || reason === "cancelled") {
      return { ...finished, cachedTokens: cachedTokens ?? 0 };
    }
    const { chain } = sequence;
    const hashes = Array.from({ length: chain.fullBlocks }, (_, block) => chain.hashAt(block));
    const { blockTokens, leases } = this.#kvCache;
    const heldTokens = leases.hold(id, hashes, this.nowMs + KV_HOLD_MS) * blockTokens;
    const { requests, tokens } = this.#statistics;
    this.#statistics = { requests: requests + 1, tokens: tokens + promptTokens };
    return { ...finished, cachedTokens: cachedTokens ?? heldTokens, heldTokens };
  }
}

/** What a request begins with: its prompt and what there is of its output, or what of both others can hit. */
export function firstTokensOf(
  { promptTokens, emittedTokens = [], prefillOnly }: GenerateRequest,
  blockTokens: number,
): number[] {
  const tokens = [...promptTokens, ...emittedTokens];
  if (prefillOnly !== true) return tokens;
  // The rest is no whole block, or has the last token, which whoever goes on computes in any case.
  const others = tokens.length - 1;
  return tokens.slice(0, others - (others % blockTokens));
}
