import { assert } from "../../src/base/assert.ts";
import type { GenerateRequest } from "./generate-request.ts";
import type { BlockHashing } from "./kv-cache/block-chain.ts";
import { BlockChain } from "./kv-cache/block-chain.ts";

/** What the engine adds to a request when it takes it. */
export interface SequenceOptions {
  readonly request: GenerateRequest;
  /** 1, 2, 3 … in the order of arrival. */
  readonly arrivalNumber: number;
  /** The request's own limit, or what the context leaves if that is less. */
  readonly outputTokensMax: number;
  readonly hashing: BlockHashing;
}

/**
 * One request inside the engine: its known tokens, and how many of them have KV.
 *
 * A step computes known tokens that have none yet. There are no phases: a prefill is a sequence that
 * lacks many, a decode one that lacks only its last token.
 */
export class Sequence {
  readonly request: GenerateRequest;
  readonly arrivalNumber: number;
  readonly outputTokensMax: number;
  readonly chain: BlockChain;
  /** The prompt, then the output. */
  readonly #tokens: number[];
  readonly #stopTokenIds: ReadonlySet<number>;
  #computedTokens = 0;
  /** Known tokens when it began to wait: with a preempted one's output, which has no KV any more. */
  #prefillTokens: number;
  #expectedHitTokens = 0;
  #cachedTokens: number | undefined;
  #hasStarted = false;

  constructor(options: SequenceOptions) {
    const { request } = options;
    this.request = request;
    this.arrivalNumber = options.arrivalNumber;
    this.outputTokensMax = options.outputTokensMax;
    this.#tokens = [...request.promptTokens];
    this.#stopTokenIds = new Set(request.stopTokenIds);
    this.#prefillTokens = this.#tokens.length;
    this.chain = new BlockChain(options.hashing, request.cacheSalt, this.#tokens);
  }

  get id(): string {
    return this.request.id;
  }

  get promptTokens(): number {
    return this.request.promptTokens.length;
  }

  get outputTokens(): number {
    return this.#tokens.length - this.promptTokens;
  }

  get knownTokens(): number {
    return this.#tokens.length;
  }

  get computedTokens(): number {
    return this.#computedTokens;
  }

  get uncomputedTokens(): number {
    return this.#tokens.length - this.#computedTokens;
  }

  /**
   * Tokens still to be prefilled: known when it began to wait, and neither computed nor, when last
   * looked up, cached. A decode has none.
   */
  get uncachedTokens(): number {
    return Math.max(
      0,
      this.#prefillTokens - Math.max(this.#computedTokens, this.#expectedHitTokens),
    );
  }

  /** Prompt tokens that were cached at the first admission; `undefined` before it. */
  get cachedTokens(): number | undefined {
    return this.#cachedTokens;
  }

  /** True once a step has computed something for it, even if that was lost to a preemption. */
  get hasStarted(): boolean {
    return this.#hasStarted;
  }

  /** The tokens that the next step computes, at most `tokensMax`. */
  nextTokens(tokensMax: number): Int32Array {
    const end = Math.min(this.#tokens.length, this.#computedTokens + tokensMax);
    return Int32Array.from(this.#tokens.slice(this.#computedTokens, end));
  }

  /** Notes what an admission would find cached, for the estimate in `uncachedTokens`. */
  expectHit(hitTokens: number): void {
    this.#expectedHitTokens = hitTokens;
  }

  /** Begins to run, with the KV of `hitTokens` leading tokens found in the cache. */
  admit(hitTokens: number): void {
    assert(this.#computedTokens === 0, `Sequence ${this.id} waited without KV`);
    this.#computedTokens = hitTokens;
    this.#expectedHitTokens = 0;
    this.#cachedTokens ??= hitTokens;
  }

  /** Counts tokens whose KV a step has computed. */
  advance(tokens: number): void {
    assert(
      tokens > 0 && tokens <= this.uncomputedTokens,
      `Sequence ${this.id} computes known tokens`,
    );
    this.#computedTokens += tokens;
    this.#hasStarted = true;
  }

  /** Appends a sampled token. Returns why the output ends with it, if it does. */
  append(tokenId: number): "stop" | "length" | undefined {
    assert(this.uncomputedTokens === 0, `Sequence ${this.id} samples behind its last known token`);
    this.#tokens.push(tokenId);
    if (this.#stopTokenIds.has(tokenId)) return "stop";
    return this.outputTokens >= this.outputTokensMax ? "length" : undefined;
  }

  /** Loses its KV. All known tokens, the output among them, will be computed again. */
  preempt(): void {
    this.#computedTokens = 0;
    this.#prefillTokens = this.#tokens.length;
  }
}
