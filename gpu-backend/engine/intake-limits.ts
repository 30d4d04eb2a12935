import type { GenerateRequest, RefusalReason } from "./generate-request.ts";

export interface IntakeLimitsOptions {
  readonly contextTokens: number;
  readonly blockTokens: number;
  /** The most blocks that one sequence may count on. */
  readonly sequenceBlocksMax: number;
  readonly batchTokensMax: number;
  /** False: what a sequence computes before its first token has to fit into one step. */
  readonly chunkedPrefill: boolean;
  readonly sequencesMax: number;
  readonly queueMax: number;
}

/**
 * Which requests an engine takes: only what it can serve, and no more than may run and wait. What
 * can never fit is refused when it comes; in the queue it would hold up all behind it for ever.
 */
export class IntakeLimits {
  /** Live requests, running and waiting, beyond which new ones are refused. */
  readonly requestsMax: number;
  /** The longest sequence, prompt and output together. */
  readonly sequenceTokensMax: number;
  readonly #contextTokens: number;

  constructor(options: IntakeLimitsOptions) {
    const { contextTokens, batchTokensMax, chunkedPrefill } = options;
    this.requestsMax = options.sequencesMax + options.queueMax;
    // With all its output, since a preempted sequence computes that again as part of its prompt.
    this.#contextTokens = chunkedPrefill ? contextTokens : Math.min(contextTokens, batchTokensMax);
    // A tenant's share of the pool bounds a sequence as the context does: one that runs alone then
    // always fits, and one that outgrows it ends by length.
    const poolTokens = options.sequenceBlocksMax * options.blockTokens;
    this.sequenceTokensMax = Math.min(this.#contextTokens, poolTokens);
  }

  /** Why a request is not taken now; `undefined` if it is. */
  reasonToRefuse(
    request: GenerateRequest,
    now: { readonly nowMs: number; readonly liveRequests: number },
  ): RefusalReason | undefined {
    const { promptTokens, emittedTokens = [], outputTokensMax } = request;
    // The smallest answer there is: one token, or none where only the prompt is looked at.
    const tokensMin = promptTokens.length + emittedTokens.length + Math.min(1, outputTokensMax);
    if (tokensMin > this.#contextTokens) return "prompt-too-long";
    if (tokensMin > this.sequenceTokensMax) return "kv-too-small";
    if (now.nowMs >= (request.firstTokenDeadlineAtMs ?? Infinity)) return "deadline-passed";
    // Counted over all live requests: a burst that finds free places to run is not turned away.
    if (now.liveRequests >= this.requestsMax) return "queue-full";
    return undefined;
  }

  /** The most tokens that a request's output can have: its own limit, or what is left of ours. */
  outputTokensMax({ outputTokensMax, promptTokens, prefillOnly }: GenerateRequest): number {
    if (prefillOnly === true) return 0;
    return Math.min(outputTokensMax, this.sequenceTokensMax - promptTokens.length);
  }
}
